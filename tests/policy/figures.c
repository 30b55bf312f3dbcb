/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of policies/README.md, from the simulated device: two tenants that compute all the
 * time, with weights of 300 and 100, and one in a hurry, which has 1 ms of work every 6 ms.
 */
#include <stdio.h>

#include "device.h"

#define TEN_SECONDS (10 * SECOND)

static void row(const struct time_policy *p)
{
	uint64_t all = 0;

	setup();
	looping(tenant(300, 0), 1);
	looping(tenant(100, 0), 1);
	periodic(tenant(100, 1), 1000, 6000);
	for (unsigned i = 0; i < 5; i++)
		go(p, SECOND);
	go(p, TEN_SECONDS);
	for (uint32_t i = 0; i < 3; i++)
		all += ran(i);
	printf("| `%s` | %.2f | %.2f | %.2f | %.1f ms |\n", p->name,
	       (double)ran(0) / (double)TEN_SECONDS, (double)ran(1) / (double)TEN_SECONDS,
	       (double)all / (double)TEN_SECONDS, (double)sim.slowest / 1000);
}

int main(void)
{
	puts("| `time` | 300 | 100 | of the device, with the third | slowest 1 ms |");
	puts("|---|---|---|---|---|");
	for (unsigned i = 0; time_policy_at(i); i++)
		row(time_policy_at(i));
	return 0;
}
