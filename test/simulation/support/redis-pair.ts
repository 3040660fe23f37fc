// A simulated Redis and a real one that are given the same scripts in the same microseconds, and must answer the same.
import assert from 'node:assert/strict'
import type { Redis } from 'ioredis'
import type { Reply, Redis as Simulated } from '../../../lab/simulation/stores/redis/machine.js'
import { cellKeys, lockKeys } from '../../../src/drivers/redis/keys.js'
import { acquire } from '../../../src/drivers/redis/scripts/acquire.js'
import type { Script } from '../../../src/drivers/redis/scripts/batch-script.js'
import { readCell, watchCell, writeCell } from '../../../src/drivers/redis/scripts/cells.js'
import { inspect } from '../../../src/drivers/redis/scripts/inspect.js'
import {
  cancel,
  downgrade,
  force,
  further,
  release,
  renew,
} from '../../../src/drivers/redis/scripts/verbs.js'

export interface Step {
  readonly what:
    | 'acquire'
    | 'release'
    | 'renew'
    | 'cancel'
    | 'downgrade'
    | 'force'
    | 'further'
    | 'inspect'
    | 'cell'
    | 'watch'
    | 'mark'
    | 'time'
  readonly who: number
  readonly mode: number
  readonly n: number
}

export const modes = ['x 1 1', 'x 1 1', 's 1 1', 'p 1 3', 'p 2 3'] as const
export type Verb = 'acquire' | 'release' | 'renew' | 'cancel' | 'downgrade' | 'force'
/** What a script replies first once it has done what it is for, and not found that nothing is to be done. */
const done: Readonly<Record<Verb, RegExp>> = {
  acquire: /^[1-9]\d*$/,
  release: /^1$/,
  renew: /^1$/,
  cancel: /^1$/,
  downgrade: /^[1-9]\d*$/,
  force: /^[1-9]\d*$/,
}
const isVerb = (name: string): name is Verb => name in done

/** The real scripts, but with their clock in two keys. */
const timed = (text: string) =>
  text.replaceAll(
    /(redis\.)?call\('TIME'\)/g,
    "{ redis.call('GET', 'clock:s'), redis.call('GET', 'clock:us') }",
  )

/**
 * A real server drops a key by its own clock, whatever TIME says to the script: so no key may run out here. By when somebody
 * does not want to learn of a change any more is a number in the data, and that stays as short as it was.
 */
const lasting = 600_000
const watchCellLasting = watchCell.text.replace(
  "call('PEXPIRE', KEYS[2], ARGV[3])",
  `call('PEXPIRE', KEYS[2], ${lasting})`,
)
assert.notEqual(watchCellLasting, watchCell.text)

export class Pair {
  readonly #real: Redis
  readonly #twin: Simulated
  readonly #heard: string[][]
  readonly #name: string
  readonly #marked: boolean
  readonly #carriedOut: Record<Verb, number>
  #now = 1_700_000_000_000_000

  constructor(
    real: Redis,
    twin: Simulated,
    heard: string[][],
    name: string,
    marked: boolean,
    carriedOut: Record<Verb, number>,
  ) {
    this.#real = real
    this.#twin = twin
    this.#heard = heard
    this.#name = name
    this.#marked = marked
    this.#carriedOut = carriedOut
  }

  async step({ what, who, mode, n }: Step): Promise<void> {
    const attempt = `attempt${who}`
    const [kind = 'x', take, of] = modes[mode]?.split(' ') ?? []
    // Now and then from where it last was in the line.
    const from = n % 7 === 0 ? `${this.#now - n}` : '0'
    if (what === 'time') this.#now += n * 1000
    else if (what === 'acquire') {
      const rest = `${take} ${of} ${n % 3 === 0 ? 0 : 1} 12000000 ${from}`
      await this.#lock(acquire, who, attempt, kind, `${n * 3000}`, rest, `note of ${who}`)
    } else if (what === 'release') await this.#lock(release, who, attempt, `${this.#now}`)
    else if (what === 'renew')
      await this.#lock(renew, who, attempt, n % 3 === 0 ? `${n * 2000} ${n % 5}` : `${n * 2000}`)
    else if (what === 'cancel') await this.#lock(cancel, who, attempt, n % 2 === 0 ? '0' : `${n * 1000}`)
    else if (what === 'downgrade') await this.#lock(downgrade, who, attempt, `${this.#now}`)
    else if (what === 'force') await this.#lock(force, who, '-')
    else if (what === 'further') await this.#lock(further, who, from)
    else if (what === 'mark') await this.#mark(n)
    else if (what === 'inspect') await this.#run(inspect.text, lockKeys('hf:', this.#name), [])
    else if (what === 'watch') {
      await this.#run(watchCellLasting, cellKeys('hf:', this.#name), ['0', 'hf:c:2', `${n * 10}`])
    } else {
      const value = n % 3 === 0 ? [] : [`value ${n}`]
      await this.#run(writeCell.text, cellKeys('hf:', this.#name), [
        '0',
        attempt,
        '',
        `${lasting + n}`,
        ...value,
      ])
      await this.#run(readCell.text, cellKeys('hf:', this.#name).slice(0, 1), [])
    }
  }

  /** Another process has met the server: it is barred for a while, its data are other ones, or nothing is wrong. */
  async #mark(n: number): Promise<void> {
    const till = n % 3 === 0 ? this.#now + n * 1000 : 0
    const marker = `${till} abc ${n % 5 === 0 ? 'other' : 'lineage'} 30000000 0`
    await this.#run("return redis.call('SET', KEYS[1], ARGV[1])", ['hf:boot'], [marker])
  }

  async #lock({ name, text }: Script, who: number, ...item: string[]): Promise<void> {
    const boot = this.#marked ? ['hf:boot'] : []
    const header = [
      this.#marked ? '0 abc lineage ' : '',
      // Nobody hears the third channel: its process must ask again by itself.
      `hf:c:${who === 5 ? 3 : (who % 2) + 1} host:${who}`,
      '65536',
      '600000',
      '0',
    ]
    const reply = await this.#run(text, [...boot, ...lockKeys('hf:', this.#name)], [...header, ...item])
    const [first = ''] = Array.isArray(reply) ? [] : String(reply).split(' ')
    // An error that the script caught is no answer to compare.
    assert.notEqual(first, 'e', `${name}: ${reply}`)
    if (isVerb(name) && done[name].test(first)) this.#carriedOut[name]++
  }

  async #run(text: string, keys: readonly string[], args: readonly string[]): Promise<Reply> {
    this.#now += 1
    const seconds = Math.floor(this.#now / 1e6)
    await this.#real.mset('clock:s', seconds, 'clock:us', this.#now - seconds * 1e6)
    this.#heard.length = 0
    const reply = await this.#real.eval(timed(text), keys.length, ...keys, ...args)
    const twin = this.#twin.run('EVAL', text, keys, args, this.#now)
    assert.deepEqual(twin.reply, JSON.parse(JSON.stringify(reply ?? null)))
    assert.deepEqual(twin.published, this.#heard)
    return twin.reply
  }

  /** Times to live are left out: the real server counts them by its own clock. */
  async compareData(): Promise<void> {
    const [hash = '', line = '', deadlines = ''] = lockKeys('hf:', this.#name)
    for (const key of [line, deadlines]) {
      const list = "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')"
      const twin = this.#twin.run('EVAL', list, [key], [], this.#now)
      assert.deepEqual(twin.reply, await this.#real.zrange(key, '0', '-1', 'WITHSCORES'))
    }
    const names = await this.#real.hkeys(hash)
    const read = "return redis.call('HMGET', KEYS[1], unpack(ARGV))"
    if (names.length === 0) return
    const twin = this.#twin.run('EVAL', read, [hash], names, this.#now)
    assert.deepEqual(twin.reply, await this.#real.hmget(hash, ...names))
  }
}
