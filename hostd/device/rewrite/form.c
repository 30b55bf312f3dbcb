/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that a program has looked up, and what became of each, for whoever asks why. The first
 * ones are kept, also when their modules are gone. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "device/rewrite/code.h"

static void learn_locked(struct form *f)
{
	const struct trial *t;

	if (!f->kernel)
		return;
	t = &f->kernel->trial;
	if (t->cost.ns[COST_PLAIN] > 0 && cost_verdict(&t->cost) != COST_OPEN)
		f->is.cost = (unsigned)MIN(
			t->cost.ns[COST_PARTS] * 1000 / t->cost.ns[COST_PLAIN], 1e6);
	snprintf(f->is.why, sizeof(f->is.why), "%s",
		 cost_verdict(&t->cost) == COST_LEAVE ? "takes longer as a copy" : "");
}

void form_add_locked(const char *name, struct kernel *k, const char *why)
{
	struct form *f = codes.forms;

	while (f < codes.forms + codes.n_forms &&
	       (strncmp(f->is.name, name, sizeof(f->is.name) - 1) != 0 || f->kernel ||
		(!k && strcmp(f->is.why, why) != 0)))
		f++;
	if (f == codes.forms + DEV_FORMS_MAX)
		return;
	if (f == codes.forms + codes.n_forms)
		codes.n_forms++;
	*f = (struct form){.kernel = k};
	snprintf(f->is.name, sizeof(f->is.name), "%s", name);
	snprintf(k ? f->is.no_yield : f->is.why, sizeof(f->is.why), "%s", why);
}

void form_drop_locked(const struct kernel *k)
{
	for (unsigned i = 0; i < codes.n_forms; i++) {
		if (codes.forms[i].kernel == k) {
			learn_locked(&codes.forms[i]);
			codes.forms[i].kernel = NULL;
		}
	}
}

unsigned forms(struct device *dev, struct device_form *ret)
{
	unsigned n;

	pthread_mutex_lock(&codes.lock);
	n = codes.n_forms;
	if (pthread_mutex_trylock(&codes.trial_lock) == 0) {
		for (unsigned i = 0; i < n; i++)
			learn_locked(&codes.forms[i]);
		pthread_mutex_unlock(&codes.trial_lock);
	}
	for (unsigned i = 0; i < n; i++)
		ret[i] = codes.forms[i].is;
	pthread_mutex_unlock(&codes.lock);
	return n;
}
