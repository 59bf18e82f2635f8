"""Parameters that several experiments share."""

from __future__ import annotations

from mqlab.parameters import Parameter

HZ = Parameter("hz", "timer ticks a second of the kernel", "Hz", 100, 1000)
CPUS = Parameter("cpus", "CPUs of the machine", "", 1, 256)
DEVICES = Parameter("devices", "devices made and deleted", "", 1, 100_000)
THREADS = Parameter("threads", "threads that work at once", "", 1, 1024)
QUEUES = Parameter("queues", "hardware queues a device", "", 1, 256)
DEPTH = Parameter("depth", "tags a hardware queue", "", 1, 10_240)
