#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# weft: needs=torch seconds=60
"""cuFFT: real and complex, one to three dimensions, odd lengths."""
import torch

import check

torch.manual_seed(1)
for shape, name in (((16, 4096), "fft"), ((7, 1009), "fft"), ((8, 128, 96), "fft2"),
                    ((2, 32, 30, 64), "fftn"), ((16, 2187), "rfft"), ((4, 256, 256), "rfft2")):
    x = torch.randn(shape, dtype=torch.float64 if name[0] == "r" else torch.complex128)
    f = getattr(torch.fft, name)
    check.close(f(x.cuda()), f(x), 1e-11, f"{name} of {shape}")
    single = x.to(torch.float32 if name[0] == "r" else torch.complex64)
    check.close(f(single.cuda()), f(x), 1e-4, f"{name} of {shape}, single")
    back = getattr(torch.fft, "i" + name)
    if name[0] != "r":
        check.close(back(f(x.cuda())), x, 1e-11, f"inverse {name}")
check.close(torch.stft(torch.ones(8000).cuda(), 400, return_complex=True,
                       window=torch.hann_window(400).cuda()),
            torch.stft(torch.ones(8000), 400, return_complex=True,
                       window=torch.hann_window(400)), 1e-5, "stft")
check.done()
