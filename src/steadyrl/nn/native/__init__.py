"""Networks on the CPU kernels: the same parameters in the same memory, their two passes in native code.

What the kernels do not know (dueling and state-dependent heads, other devices) has no kernel form and runs through
PyTorch, unchanged above it. Encoders with weights, such as those of images, run through PyTorch in front of them.
"""
