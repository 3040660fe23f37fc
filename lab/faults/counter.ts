/** What is done under a guarded lock: a counter is read, and written back later, each with the token. */
import type { Recorder } from 'holdfast/verify'
import type { GuardAnswer, GuardAsk } from './workload.js'

export async function countUnder(
  journal: Recorder,
  about: { readonly name: string; readonly attempt: string; readonly token: number },
  askGuard: (ask: GuardAsk) => Promise<GuardAnswer>,
  hold: () => Promise<void>,
): Promise<void> {
  const { name, attempt, token } = about
  const read = await access('read', 0)
  await hold()
  if (read.ok) await access('write', read.value + 1)

  async function access(op: GuardAsk['op'], value: number): Promise<GuardAnswer> {
    const event = { op, name, attempt, token, ...(op === 'write' && { value }) } as const
    journal.write({ ...event, phase: 'invoke' })
    const answer = await askGuard({ op, name, token, value })
    if (answer.ok) {
      const { value, seq } = answer
      journal.write({ ...event, phase: 'ok', value, ...(op === 'write' && { seq }) })
    } else journal.write({ ...event, phase: 'fail', kind: 'stale' })
    return answer
  }
}
