/** A master's Sentinels: how many there are, whether they could replace it, and how soon. */
import { type Check, ok, weak } from './check.js'
import type { RedisConnection } from './redis-open.js'

interface MasterView {
  readonly fields: ReadonlyMap<string, string>
  /** What would prevent a fail-over; undefined: nothing. */
  readonly quorum: string | undefined
}

/** @param master its name in the Sentinels */
export async function sentinelChecks(
  watchers: ReadonlyMap<string, RedisConnection>,
  master: string,
): Promise<Check[]> {
  const asked = await Promise.all(
    [...watchers].map(([name, watcher]) => readMasterView(watcher, master).catch(() => name)),
  )
  const silent = asked.filter((one) => typeof one === 'string')
  const [first] = asked.filter((one): one is MasterView => typeof one !== 'string')
  if (first === undefined) return []
  const { fields } = first
  const all = 1 + Number(fields.get('num-other-sentinels') ?? 0)
  return [
    answers(watchers.size, silent, all),
    number(all),
    failover(first, fields.get('quorum') ?? 'unknown'),
    soon(Number(fields.get('down-after-milliseconds') ?? 0), master),
  ]
}

async function readMasterView(watcher: RedisConnection, master: string): Promise<MasterView> {
  const reply = (await watcher.call('SENTINEL', 'MASTER', master)) as string[]
  const pairs = reply.flatMap((word, i) => (i % 2 === 0 ? [[word, reply[i + 1] ?? ''] as const] : []))
  const quorum = await watcher.call('SENTINEL', 'CKQUORUM', master).then(
    () => undefined,
    (error: Error) => error.message,
  )
  return { fields: new Map(pairs), quorum }
}

function answers(named: number, silent: readonly string[], all: number): Check {
  const what = 'addresses'
  if (silent.length > 0) {
    const found = `no answer from the Sentinel ${silent.join(', ')}`
    return weak(
      what,
      found,
      'locks work as long as another one answers',
      'start it, or leave it out of the URL',
    )
  }
  if (named === 1 && all > 1) {
    const found = `one of ${all} Sentinels is named`
    return weak(
      what,
      found,
      'while it is down, no process that starts finds the master',
      'name them all in the URL',
    )
  }
  return ok(what, named === 1 ? 'the Sentinel answers' : `all ${named} Sentinels answer`)
}

function number(all: number): Check {
  const found = `${all} ${all === 1 ? 'Sentinel watches' : 'Sentinels watch'} the master`
  if (all >= 3) return ok('Sentinels', found)
  const means = 'without any one of them no fail-over takes place: no locks while the master is down'
  return weak('Sentinels', found, means, 'three Sentinels, on machines of their own')
}

function failover({ quorum }: MasterView, needed: string): Check {
  if (quorum === undefined) return ok('quorum', `${needed} must agree, and enough are there`)
  const means = 'no fail-over can take place: no locks while the master is down'
  return weak('quorum', quorum, means, 'start the Sentinels that are down')
}

/** Half of the driver's `commandTimeout`, in ms: a shorter silence of the master raises no doubt. */
const suspectFlags = 1_000

function soon(ms: number, master: string): Check {
  const [what, found] = ['fail-over', `down-after-milliseconds ${ms}`]
  if (ms >= suspectFlags) return ok(what, found)
  const means = 'a master may be replaced before the driver doubts it: two processes can hold one lock'
  return weak(what, found, means, `SENTINEL SET ${master} down-after-milliseconds ${suspectFlags}`)
}
