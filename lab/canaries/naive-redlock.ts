/** Redlock as it is often written: a majority of `SET NX PX`, with no memory of what a server may have forgotten. */

import { type Claim, type Driver, deadline, type Env, type Grant } from 'holdfast/driver'
import type { Redis } from 'ioredis'
import { pause, toKey } from './plain-lock.js'

export interface Votes {
  /** The deadline counts from the moment the votes have been counted. */
  readonly lateClock?: boolean
  /** A vote requested twice counts twice. */
  readonly countsTwice?: boolean
  /** Only a bare majority of servers is asked, so a single server that forgets is enough. */
  readonly justEnough?: boolean
}

const vote = `
local now = redis.call('GET', KEYS[1])
if now == ARGV[1] then return 1 end
if now then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`
const withdrawVote = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
const renew = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`

export function naiveRedlock(
  servers: readonly Redis[],
  { lateClock = false, countsTwice = false, justEnough = false }: Votes,
  env: Env,
): Driver {
  const majority = Math.floor(servers.length / 2) + 1
  // Half the ttl where the mistake needs many grants: on a slow machine hardly any majority is reached within a fifth.
  const timeout = (ttl: number) => (lateClock ? 4 * ttl : justEnough ? ttl / 2 : ttl / 5)
  const asked = () => {
    const order = servers.map((server) => ({ server, at: env.random() })).sort((a, b) => a.at - b.at)
    return order.map(({ server }) => server).slice(0, justEnough ? majority : servers.length)
  }
  const count = async (
    claim: Claim,
    script: string,
    ttl: number,
    among: readonly Redis[],
  ): Promise<number> => {
    let votes = 0
    let answers = 0
    const late = pause(timeout(ttl))
    const enough = new Promise<void>((resolve) => {
      const ask = async (server: Redis) => {
        const answer = await server.eval(script, 1, toKey(claim.name), claim.attempt, ttl).catch(() => 0)
        if (answer === 1) votes++
        if (votes >= majority || ++answers >= among.length) resolve()
      }
      for (const server of among) {
        // Servers are not equally far away.
        void pause(4 * env.random()).then(() => ask(server))
        if (countsTwice) for (const later of [2, 4]) void pause(later).then(() => ask(server))
      }
    })
    await Promise.race([enough, late])
    return votes
  }
  const undo = (claim: Claim) =>
    void Promise.allSettled(
      servers.map((server) => server.eval(withdrawVote, 1, toKey(claim.name), claim.attempt)),
    )
  const until = (sent: number, ttl: number) => deadline(lateClock ? env.clock.now() : sent, ttl)
  const createGrant = (claim: Claim, sent: number, among: readonly Redis[]): Grant => {
    let validUntil = until(sent, claim.ttl)
    return {
      token: Math.floor((performance.timeOrigin + performance.now()) * 1000),
      get validUntil() {
        return validUntil
      },
      renew: async (ttl) => {
        const sent = env.clock.now()
        if ((await count(claim, renew, ttl, among)) < majority) throw new Error('no majority')
        validUntil = until(sent, ttl)
        return validUntil
      },
      release: async () => {
        undo(claim)
        return 'released'
      },
    }
  }
  return {
    name: 'naive-redlock',
    traits: { modes: ['exclusive'], fair: false, minTtl: 1, shared: true },
    async acquire(claim, wait) {
      for (;;) {
        const [sent, among] = [env.clock.now(), asked()]
        if ((await count(claim, vote, claim.ttl, among)) >= majority) return createGrant(claim, sent, among)
        undo(claim)
        if (wait.ended || wait.remaining() === 0) return undefined
        await pause(10 + 40 * env.random())
        if (wait.ended) return undefined
      }
    },
    inspect: async (name) => ({ name, holders: [], waiters: [], lastToken: 0 }),
    close: async () => undefined,
  }
}
