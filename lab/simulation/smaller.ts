/** Shrinks a plan that breaks something for as long as it still does, so that only the necessary parts remain. */
import type { Plan, Visit } from './plan.js'

/** The maximum number of plays. */
const maxTries = 400
/** Leaving something out changes every later random choice, so each smaller plan is also tried with a few other seeds. */
const seeds = [0, 1, 2]

export async function shrinkPlan(plan: Plan, breaks: (plan: Plan) => Promise<boolean>): Promise<Plan> {
  let least = plan
  let plays = 0
  const take = async (smaller: Plan) => {
    for (const seed of [least.seed, ...seeds]) {
      if (plays++ >= maxTries) return false
      const tried = { ...smaller, seed }
      if (!(await breaks(tried))) continue
      least = tried
      return true
    }
    return false
  }
  const leaveOut = async () => {
    let some = false
    for (const part of ['faults', 'visits'] as const) {
      for (let i = least[part].length - 1; i >= 0; i--) {
        if (await take({ ...least, [part]: least[part].toSpliced(i, 1) })) some = true
      }
    }
    return some
  }
  while (await leaveOut());
  if (least.rates.some((rate) => rate !== 0)) await take({ ...least, rates: least.rates.map(() => 0) })
  for (const i of least.visits.keys()) {
    for (const [field, value] of Object.entries(simplest)) {
      const visit = least.visits[i] as Visit
      if (visit[field as keyof Visit] !== value)
        await take({ ...least, visits: least.visits.with(i, { ...visit, [field]: value }) })
    }
  }
  return least
}

const simplest: Partial<Visit> = {
  name: 0,
  shared: false,
  permits: 1,
  wait: -1,
  fair: false,
  leaves: 'release',
  abort: -1,
  at: 0,
  returns: 0,
  linger: 0,
}
