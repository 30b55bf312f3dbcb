/* SPDX-License-Identifier: Apache-2.0 */
// Inline assembly as matrix libraries write it: labels in blocks, mbarriers, ldmatrix.
#include <stdint.h>

__device__ __forceinline__ void wait_bar(uint32_t bar, uint32_t phase)
{
	asm volatile("{\n"
		     ".reg .pred P1;\n"
		     "LAB_WAIT:\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1, %2;\n"
		     "@P1 bra DONE;\n"
		     "bra LAB_WAIT;\n"
		     "DONE:\n"
		     "}" ::"r"(bar), "r"(phase), "r"(0x989680));
}

__global__ void gemm(const uint32_t *a, float *d)
{
	__shared__ __align__(16) uint32_t s[1024];
	__shared__ uint64_t bar;
	uint32_t p = (uint32_t)__cvta_generic_to_shared(s), r[4], b[2];
	uint32_t m = (uint32_t)__cvta_generic_to_shared(&bar);
	float c[4] = {0, 0, 0, 0};

	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(p));
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%0,%1}, [%2];"
		     : "=r"(b[0]), "=r"(b[1])
		     : "r"(p + 64));
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
		     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		     : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(b[0]), "r"(b[1]));
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
		     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		     : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(b[0]), "r"(b[1]));
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(m), "r"(1));
	asm volatile("fence.mbarrier_init.release.cluster;");
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(m),
		     "r"(1024));
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
		     " [%0], [%1], %2, [%3];" ::"r"(p),
		     "l"(a), "r"(1024), "r"(m)
		     : "memory");
	wait_bar(m, 0);
	wait_bar(m, 1);
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(d),
		     "r"(p), "r"(64));
	asm volatile("cp.async.bulk.commit_group;");
	asm volatile("cp.async.bulk.wait_group.read 0;");
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(p), "l"(a),
		     "r"(8));
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(p), "l"(a));
	asm volatile("cp.async.wait_all;");
	d[threadIdx.x] = c[threadIdx.x & 3];
}

__global__ void hints(uint64_t *p, uint32_t *q)
{
	uint64_t pol, v[2];
	uint32_t lane, x[4];

	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pol));
	asm volatile("ld.global.L2::cache_hint.v2.u64 {%0,%1}, [%2], %3;"
		     : "=l"(v[0]), "=l"(v[1])
		     : "l"(p), "l"(pol));
	asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
		     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
		     : "l"(q));
	asm volatile("st.global.L1::evict_last.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(q), "r"(x[0]),
		     "r"(x[1]), "r"(x[2]), "r"(x[3]));
	asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
	asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(q), "r"(lane));
	asm volatile("prefetch.global.L2 [%0];" ::"l"(q));
	asm volatile("discard.global.L2 [%0], 128;" ::"l"(q));
	asm volatile("griddepcontrol.wait;\n griddepcontrol.launch_dependents;");
	asm volatile("barrier.sync 1, 64;\n bar.arrive 2, 64;");
	p[lane] = v[0] + v[1];
}
