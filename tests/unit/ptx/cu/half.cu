/* SPDX-License-Identifier: Apache-2.0 */
// Half precision arithmetic, conversions and comparisons of the toolkit's headers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__global__ void half_ops(const __half *a, const __half *b, __half *o, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	__half x = a[i], y = b[i];
	__half2 p = __halves2half2(x, y), q = __hmul2(p, p);

	o[i] = __hadd(__hmul(x, y), __hfma(x, y, __hdiv(x, y)));
	o[i + n] = hexp(x) + hlog(y) + hsqrt(x) + hrcp(y) + hsin(x) + htanh(y);
	q = __hfma2_relu(p, q, __hmin2(p, q));
	q = __hmax2_nan(q, h2exp2(p));
	o[i + 2 * n] = __hgt2(p, q).x + __habs(q.y) + __hmin_nan(x, y);
	o[i + 3 * n] = __float2half_rz(__half2float(x) * 2.5f) + __int2half_rn(i) +
		       __ull2half_ru(i) + __short2half_rd((short)i);
	o[i + 4 * n] = __half(__hlt(x, y) || __hgeu(x, y)) + htrunc(x) + hrint(y) +
		       hceil(x) + hfloor(y);
	atomicAdd(o + i, x);
	atomicAdd((__half2 *)o + i, p);
	((int *)o)[i + 9 * n] = __half2int_rn(x) + __half2ll_rz(y) + __half2ushort_ru(x);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
__global__ void bf16_ops(const __nv_bfloat16 *a, __nv_bfloat16 *o, float *f, int n)
{
	int i = threadIdx.x;
	__nv_bfloat16 x = a[i], y = a[i + n];
	__nv_bfloat162 p = __halves2bfloat162(x, y);

	o[i] = x * y + __hfma(x, y, x) - y / x;
	o[i + n] = hexp(x) + hlog2(y) + hsqrt(x) + __hmax(x, y) + __hmin_nan(x, y);
	p = __hfma2(p, p, __floats2bfloat162_rn(f[i], f[i + 1]));
	f[i] = __bfloat162float(p.x) + __low2float(p) + (float)__hne(x, y);
	o[i + 2 * n] = __float2bfloat16_rz(f[i]) + __double2bfloat16((double)f[i + 2]);
	atomicAdd(o + i, x);
	atomicAdd((__nv_bfloat162 *)o + i, p);
}
#endif

__global__ void fp8_ops(const __nv_fp8_e4m3 *a, __nv_fp8_e5m2 *o, float2 *f)
{
	int i = threadIdx.x;
	__nv_fp8x2_e4m3 v(f[i]);

	o[i] = __nv_fp8_e5m2(float(a[i]) * 3.0f);
	f[i] = float2(v);
	o[i + 32] = __nv_fp8_e5m2(__half(a[i]));
}
