// The scripts with their short cuts against the same scripts without them, on a real server: random commands, the same
// answers and the same stored text after every step. TIME is read from two keys, so that both live in the same microsecond.
// Second tier because it compares scripts that seldom change; votes.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { fastRelease, fastVote, renewMany } from '../../../src/drivers/redlock/fast-paths.js'
import { downgrade, release, renew, vote } from '../../../src/drivers/redlock/scripts.js'
import type { Script } from '../../../src/drivers/redlock/state.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'

// Mostly the life of a lock that nobody else asks for: that is where the short cuts are taken.
const usual = ['vote', 'release', 'vote', 'release', 'vote', 'release', 'time'] as const
const verbs = [...usual, 'rejoin', 'renew', 'downgrade', 'back'] as const

interface Command {
  readonly verb: (typeof verbs)[number]
  readonly who: number
  readonly kind: 'x' | 's'
  readonly waits: boolean
  readonly round: number
  readonly ms: number
}

const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.record({
    verb: fc.constantFrom(...verbs),
    who: fc.constantFrom(0, 0, 0, 0, 1, 2),
    kind: fc.constantFrom('x' as const, 'x' as const, 's' as const),
    waits: fc.constantFrom(false, false, false, true),
    round: fc.integer({ min: 1, max: 30 }),
    ms: fc.integer({ min: 1, max: 900 }),
  }),
  { minLength: 30, maxLength: 60 },
)

/** With its clock in two keys. */
const stilled = ({ text }: Script): string =>
  text.replace("call('TIME')", "{ call('GET', 'clock:s'), call('GET', 'clock:us') }")

const general = (script: Script): string => stilled(script).replace(fastVote, '').replace(fastRelease, '')

/** Half of them with one of few orders: many are older than one before. */
const toTerm = (micros: number, ms: number) => `${micros}${ms % 2 === 0 ? '' : ` ${1 + (ms % 20)}`}`

let took = 0
let renewedTogether = 0

/** One lock in two keys, and what the last ballot was. */
class Twins {
  readonly #redis: Redis
  readonly #key: string
  #now = 1_700_000_000_000_000
  #ballot = 0
  readonly #tokens = new Map<string, number>()

  constructor(redis: Redis, key: string) {
    this.#redis = redis
    this.#key = key
  }

  async step({ verb, who, kind, waits, round, ms }: Command): Promise<void> {
    if (verb === 'time') this.#now += ms * 1_000
    // Mostly less than what makes the script shift its time permanently, after which there are no short cuts.
    if (verb === 'back') this.#now -= ms > 860 ? ms * 1_000 : ms * 50
    if (verb === 'time' || verb === 'back') return
    const id = `attempt${who}`
    const last = String((this.#tokens.get(id) ?? 0) + (ms % 5))
    const args = {
      release: () => [id, String(round), last, '600000', waits ? '0' : '1'],
      downgrade: () => [id, last, '600000'],
    }
    if (verb === 'renew') return this.#renews(id, toTerm(ms * 1_000, ms))
    if (verb === 'release') return this.#same(release, [], args.release())
    if (verb === 'downgrade') return this.#same(downgrade, [], args.downgrade())
    // One in three is too old to be voted for.
    const ballot = ms % 3 === 0 ? this.#ballot : Math.max(this.#ballot + 1, this.#now)
    if (!this.#tokens.has(id)) this.#tokens.set(id, ballot)
    this.#ballot = ballot
    const claimed = [
      'boot',
      id,
      String(round),
      kind,
      verb === 'rejoin' ? toTerm(ms * 3_000, ms) : String(ms * 3_000),
      String(ballot),
    ]
    const rest = [
      verb === 'rejoin' ? '1' : '0',
      '600000',
      'host:1',
      waits ? 'channel' : '-',
      '500000',
      `a ${ms}`,
    ]
    return this.#same(vote, ['marker'], [...claimed, ...rest])
  }

  /** Together with others first, as a client does. */
  async #renews(id: string, micros: string): Promise<void> {
    const [together, alone] = await this.#setClock()
    const answer = await this.#redis.eval(stilled(renewMany), 2, 'marker', together, 'boot', micros, id)
    const [answered, letters, at] = answer as string[]
    assert.deepEqual([answered, at], ['k', String(this.#now)])
    const args = ['marker', 'boot', id, micros, '600000'] as const
    const long = (await this.#redis.eval(general(renew), 2, alone, ...args)) as string[]
    if (letters === 'y') renewedTogether++
    else await this.#redis.eval(general(renew), 2, together, ...args)
    if (letters === 'y') assert.equal(long[0], 'y')
    else assert.equal(letters, 'g')
    await this.#sameText()
  }

  async #setClock(): Promise<readonly [string, string]> {
    const seconds = Math.floor(this.#now / 1_000_000)
    await this.#redis.mset('clock:s', seconds, 'clock:us', this.#now - seconds * 1_000_000)
    return [`${this.#key}:short`, `${this.#key}:general`]
  }

  async #same(script: Script, more: readonly string[], args: readonly string[]): Promise<void> {
    const keys = await this.#setClock()
    const run = (text: string, key: string) =>
      this.#redis.eval(text, 1 + more.length, key, ...more, ...args) as Promise<string | (string | number)[]>
    const short = await run(stilled(script), keys[0])
    const long = await run(general(script), keys[1])
    if (typeof short === 'string') took++
    assert.deepEqual(typeof short === 'string' ? short.split(' ') : short, long)
    await this.#sameText()
  }

  async #sameText(): Promise<void> {
    const keys = [`${this.#key}:short`, `${this.#key}:general`] as const
    const [one, two] = await this.#redis.mget(...keys)
    assert.deepEqual(sorted(one), sorted(two))
    const [shortLasts, longLasts] = [await this.#redis.pttl(keys[0]), await this.#redis.pttl(keys[1])]
    assert.equal(shortLasts > 0, longLasts > 0, 'both have a time to live, or neither')
  }
}

/** Votes and waits are kept in no order. */
function sorted(stored: string | null | undefined): readonly string[] {
  const [head = '', ...rest] = stored?.split('\n') ?? []
  return [head, ...rest.sort()]
}

test('every script does with its short cut what it does without', async () => {
  await using server = await startRedis()
  const redis = new Redis(server.port)
  try {
    await redis.set('marker', 'boot')
    let lock = 0
    const property = fc.asyncProperty(commands, async (sequence) => {
      const twins = new Twins(redis, `lock${++lock}`)
      for (const command of sequence) await twins.step(command)
    })
    await fc.assert(property, { numRuns: 150 })
    assert.ok(took > 60, `only ${took} short cuts were taken`)
    assert.ok(renewedTogether > 20, `only ${renewedTogether} votes were renewed together`)
    await redis.set('marker', 'another')
    const answer = await redis.eval(
      vote.text,
      2,
      'free',
      'marker',
      'boot',
      ...'a 1 x 1000 1 0 1 by - 1 note'.split(' '),
    )
    assert.equal((answer as string[])[0], 'b')
  } finally {
    redis.disconnect()
  }
})

test('a foreign key under the name of a lock is an error, and stays unchanged', async () => {
  await using server = await startRedis()
  const redis = new Redis(server.port)
  try {
    await redis.set('marker', 'boot')
    await redis.rpush('list', 'mine')
    const asked = redis.eval(
      vote.text,
      2,
      'list',
      'marker',
      'boot',
      ...'a 1 x 1000 1 0 1 by - 1 note'.split(' '),
    )
    await assert.rejects(asked, /WRONGTYPE/)
    assert.deepEqual(await redis.lrange('list', 0, -1), ['mine'])
  } finally {
    redis.disconnect()
  }
})

after(leakCheck)
