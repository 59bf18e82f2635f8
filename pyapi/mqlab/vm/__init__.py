"""Guests: an initramfs for a kernel, a boot under QEMU, and what the agent in it reports."""
