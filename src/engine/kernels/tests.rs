//! The twins against formulas written out, on the CPU. The kernels are compared with the twins on each GPU.
