/** One lock over five independent servers, beside the floor of a majority write, with all servers healthy and with one frozen. */
import { startMany } from '../../test/support/servers/redis.js'
import { atLeast, atMost, type Figure } from '../figure.js'
import { measureQuorum, openQuorum, type Quorum, quorumSize } from '../redis/quorum.js'
import { ratio } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'

const suite = 'redlock'
const ours = 'quorum-ours'
const bare = 'quorum-bare'

export async function measureRedlock(scale: Scale): Promise<readonly Figure[]> {
  await using group = await startMany(quorumSize)
  const contenders = await openQuorum([ours, bare], group)
  const healthy = await measureQuorum(contenders, scale)
  group.servers[0]?.pause()
  const frozen = await measureQuorum(contenders, scale)
  group.servers[0]?.resume()
  for (const contender of contenders.values()) await contender.close()
  return [
    speed('acquire + release over 5 servers', healthy),
    speed('the same with one server frozen (SIGSTOP)', frozen),
    slowest(healthy, frozen),
  ]
}

function speed(what: string, { rates, stuck }: Quorum): Figure {
  const [mine, theirs] = [rates[ours] ?? [0], rates[bare] ?? [0]]
  const of = ratio(mine, theirs)
  return {
    suite,
    what,
    unit: 'per second',
    ours: spread(mine),
    floor: { what: 'bare majority write', value: spread(theirs), ratio: of },
    counts: { stuck: stuck.size },
    aim: atLeast(of.median, 0.85, '×'),
  }
}

function slowest(healthy: Quorum, frozen: Quorum): Figure {
  const before = healthy.p99.get(ours) ?? Number.NaN
  const after = frozen.p99.get(ours) ?? Number.NaN
  return {
    suite,
    what: 'p99 of a pair with one server frozen',
    unit: 'ms',
    ours: spread([after]),
    floor: { what: 'p99 while all are healthy', value: spread([before]), ratio: spread([after / before]) },
    aim: atMost(after / before, 2, '× healthy'),
  }
}
