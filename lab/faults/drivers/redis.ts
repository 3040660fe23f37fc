/** `redis()` on one server that keeps an append-only file, synced every second: restarts keep data, power cuts and flushes do not. */

import { startRedis } from '../../../test/support/servers/redis.js'
import { openLinks } from '../links.js'
import { findLostTokens } from '../lost-tokens.js'
import { serverAnswers } from '../redis-answers.js'
import { openRedis, type RedisPlace } from '../redis-client.js'
import { forgedMessages } from '../redis-forger.js'
import { clockJump, flush, harmlessFaults, labServer, powerCut, restart } from '../redis-servers.js'
import { type Excuse, type Fault, type LabDriver, lab as made, secondHolder } from '../store.js'

const host = '127.0.0.1'

export const lab: LabDriver = made({
  about: 'redis: one server with an append-only file, an ioredis client in every process',
  client: (place) => openRedis(place as RedisPlace),
  open: async ({ workers, ttl }) => {
    const server = await startRedis({ ...labServer, persistence: 'aof-everysec' })
    const links = await openLinks(workers, [server.port])
    // Short, so that a run can contain more than one loss of data.
    const options = { maxTtl: ttl }
    const place = (port: number): RedisPlace => ({ is: 'single', hosts: [{ host, port }], options })
    const quarantine = 3 * ttl
    // Nothing is granted during a quarantine: a run of quarantines alone would show little.
    const rest = 8 * ttl
    const ahead: Fault = {
      ...clockJump([server], 1),
      excuses: [
        {
          rules: secondHolder,
          within: ttl,
          why: "a jump forward of the server's own clock can end a lease early (docs/drivers/redis.md)",
        },
      ],
    }
    // After each of these, the server may have forgotten locks. They come close together, so no try may be granted for longer than one quarantine.
    const forgetful = [
      restart([server], { kind: 'kill and start again', keepData: true }),
      restart([server], { kind: 'start again without data', keepData: false, apart: rest }),
      powerCut([server], rest),
      flush([server], rest),
    ]
    const refuses: Excuse = {
      rules: ['false-busy'],
      within: quarantine + 1_000,
      why: 'nothing is granted during the quarantine of a server that may have forgotten (docs/drivers/redis.md)',
    }
    const deletes = ['server: power cut', 'server: flush all data', 'server: start again without data']
    // The longest jump is ten ttls: after that time the clock has caught up with the tokens that only the lost data contained.
    const back: Fault = {
      ...clockJump([server], -1),
      excuses: [
        {
          rules: ['tokens'],
          within: 10 * ttl,
          explains: (history) => findLostTokens(history, deletes, ttl),
          why: 'a clock set back and the newest writes lost, both: a token that only the lost data contained may be followed by a smaller one, which is what the clock shows (docs/drivers/redis.md)',
        },
        {
          rules: ['false-busy'],
          within: 10 * ttl,
          beside: forgetful.map(({ kind }) => kind),
          why: 'a clock set back can restart a quarantine twice (docs/drivers/redis.md)',
        },
      ],
    }
    return {
      place: (n) => place(links.through(n, server.port)),
      direct: () => openRedis(place(server.port)),
      faults: [
        ...links.faults,
        ...harmlessFaults([server]),
        ...forgetful.map((fault) => ({ ...fault, excuses: [refuses] })),
        back,
        ahead,
        forgedMessages([server]),
      ],
      lingers: true,
      settles: 4 * ttl + 4_000,
      answers: serverAnswers([server]),
      // Tries are refused while a server that may have forgotten locks lets everything expire.
      check: { falseBusy: { lag: quarantine + 2_000 } },
      versions: { [server.flavour]: await readVersion(server) },
      close: async () => {
        await links.close()
        await server.stop()
      },
    }
  },
})

async function readVersion(server: Awaited<ReturnType<typeof startRedis>>): Promise<string> {
  return /redis_version:(\S+)/.exec(String(await server.cli('INFO', 'server')))?.[1] ?? 'unknown'
}
