// Compares our declaration of the ublk interface with the system's header, name
// by name, as far as that header goes. Nothing here runs.
#include <cerrno>

#include "devices/ublk_abi.h"

#if __has_include(<linux/ublk_cmd.h>)
#include <linux/ublk_cmd.h>

namespace mqlab::devices::ublk {
namespace {

static_assert(sizeof(CtrlCmd) == 32);
static_assert(offsetof(CtrlCmd, dev_id) == offsetof(ublksrv_ctrl_cmd, dev_id));
static_assert(offsetof(CtrlCmd, queue_id) == offsetof(ublksrv_ctrl_cmd, queue_id));
static_assert(offsetof(CtrlCmd, len) == offsetof(ublksrv_ctrl_cmd, len));
static_assert(offsetof(CtrlCmd, addr) == offsetof(ublksrv_ctrl_cmd, addr));
static_assert(offsetof(CtrlCmd, data) == offsetof(ublksrv_ctrl_cmd, data));

static_assert(sizeof(DevInfo) == sizeof(ublksrv_ctrl_dev_info));
static_assert(offsetof(DevInfo, queue_depth) == offsetof(ublksrv_ctrl_dev_info, queue_depth));
static_assert(offsetof(DevInfo, state) == offsetof(ublksrv_ctrl_dev_info, state));
static_assert(offsetof(DevInfo, max_io_buf_bytes) == offsetof(ublksrv_ctrl_dev_info, max_io_buf_bytes));
static_assert(offsetof(DevInfo, dev_id) == offsetof(ublksrv_ctrl_dev_info, dev_id));
static_assert(offsetof(DevInfo, ublksrv_pid) == offsetof(ublksrv_ctrl_dev_info, ublksrv_pid));
static_assert(offsetof(DevInfo, flags) == offsetof(ublksrv_ctrl_dev_info, flags));

static_assert(sizeof(ParamBasic) == sizeof(ublk_param_basic));
static_assert(offsetof(ParamBasic, dev_sectors) == offsetof(ublk_param_basic, dev_sectors));
static_assert(offsetof(Params, basic) == offsetof(ublk_params, basic));
static_assert(kParamTypeBasic == UBLK_PARAM_TYPE_BASIC);

static_assert(sizeof(IoCmd) == sizeof(ublksrv_io_cmd));
static_assert(offsetof(IoCmd, result) == offsetof(ublksrv_io_cmd, result));
static_assert(offsetof(IoCmd, addr) == offsetof(ublksrv_io_cmd, addr));
static_assert(sizeof(IoDesc) == sizeof(ublksrv_io_desc));
static_assert(offsetof(IoDesc, start_sector) == offsetof(ublksrv_io_desc, start_sector));
static_assert(offsetof(IoDesc, addr) == offsetof(ublksrv_io_desc, addr));

static_assert(kIoResOk == UBLK_IO_RES_OK);
static_assert(kIoResAbort == UBLK_IO_RES_ABORT);
static_assert(kMaxQueueDepth == UBLK_MAX_QUEUE_DEPTH);
static_assert(kOpRead == UBLK_IO_OP_READ);
static_assert(kOpWrite == UBLK_IO_OP_WRITE);

// The plain numbers are in every header; the encoded ones came later.
static_assert(_IOC_NR(kCmdGetDevInfo) == UBLK_CMD_GET_DEV_INFO);
static_assert(_IOC_NR(kCmdAddDev) == UBLK_CMD_ADD_DEV);
static_assert(_IOC_NR(kCmdDelDev) == UBLK_CMD_DEL_DEV);
static_assert(_IOC_NR(kCmdStartDev) == UBLK_CMD_START_DEV);
static_assert(_IOC_NR(kCmdStopDev) == UBLK_CMD_STOP_DEV);
static_assert(_IOC_NR(kCmdSetParams) == UBLK_CMD_SET_PARAMS);
static_assert(_IOC_NR(kIoFetchReq) == UBLK_IO_FETCH_REQ);
static_assert(_IOC_NR(kIoCommitAndFetchReq) == UBLK_IO_COMMIT_AND_FETCH_REQ);

#ifdef UBLK_U_CMD_ADD_DEV
static_assert(kCmdGetDevInfo == UBLK_U_CMD_GET_DEV_INFO);
static_assert(kCmdAddDev == UBLK_U_CMD_ADD_DEV);
static_assert(kCmdDelDev == UBLK_U_CMD_DEL_DEV);
static_assert(kCmdStartDev == UBLK_U_CMD_START_DEV);
static_assert(kCmdStopDev == UBLK_U_CMD_STOP_DEV);
static_assert(kCmdSetParams == UBLK_U_CMD_SET_PARAMS);
static_assert(kIoFetchReq == UBLK_U_IO_FETCH_REQ);
static_assert(kIoCommitAndFetchReq == UBLK_U_IO_COMMIT_AND_FETCH_REQ);
#endif
#ifdef UBLK_U_CMD_GET_FEATURES
static_assert(kCmdGetFeatures == UBLK_U_CMD_GET_FEATURES);
#endif
#ifdef UBLK_U_CMD_DEL_DEV_ASYNC
static_assert(kCmdDelDevAsync == UBLK_U_CMD_DEL_DEV_ASYNC);
#endif
#ifdef UBLK_F_USER_COPY
static_assert(kFeatureUserCopy == UBLK_F_USER_COPY);
#endif

}  // namespace
}  // namespace mqlab::devices::ublk
#endif
