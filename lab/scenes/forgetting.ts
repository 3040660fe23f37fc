/** What goes wrong when a server forgets. */
import { startProxy } from '../../test/support/proxy.js'
import { startRedis } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import { holdfastRedisShort, holdfastRedlock } from './holdfast-locks.js'
import { maxTtl, sceneTimeout } from './lock.js'
import { naiveMajority, setNxCompare } from './naive-redis-locks.js'
import { answering } from './redis-scene.js'
import { first, type RedisScene, secondHolder } from './scene.js'

export const restart: RedisScene = {
  name: 'restart',
  title: 'A restart without data',
  story: 'The server is killed and comes back empty, while A holds the lock.',
  holdfastDoes:
    'The processes that knew the server notice that it has lost data. It grants nothing until everything it could have lost has expired. A is notified at its next renewal.',
  page: 'hazards.md#one-server',
  naive: setNxCompare,
  holdfast: holdfastRedisShort,
  servers: 1,
  async run(stage) {
    const [a, b] = [await stage.player('A'), await stage.player('B')]
    const held = await first(a, maxTtl)
    const back = stage.history.fault('restart, empty')
    await stage.server.kill9()
    await stage.server.restart({ keepData: false })
    back()
    await answering(b.clients)
    if (stage.way === holdfastRedisShort) stage.history.quarantine()
    const outcome = await secondHolder(held, b)
    await held.release()
    return outcome
  },
}

export const failOver: RedisScene = {
  name: 'fail-over',
  title: 'A fail-over before replication',
  story:
    'A takes the lock. The server dies before its replica has received the grant, and the replica takes its place.',
  holdfastDoes:
    'The data of the new master show that another server wrote them, so nothing is granted until all grants that could be missing have expired. With `replicas: 1` the grant would not have counted.',
  page: 'hazards.md#one-server',
  naive: setNxCompare,
  holdfast: holdfastRedisShort,
  servers: 1,
  async run(stage) {
    const { server, history } = stage
    const line = await startProxy({ port: server.port })
    stage.keep(() => line.stop())
    const replica = await startRedis({ args: ['--replicaof', line.host, String(line.port)] })
    stage.keep(() => replica.stop())
    const a = await stage.player('A')
    const offset = async (of: typeof server) =>
      /master_repl_offset:(\d+)/.exec(String(await of.cli('INFO', 'replication')))?.[1]
    const synced = async () =>
      String(await replica.cli('INFO', 'replication')).includes('master_link_status:up') &&
      (await offset(replica)) === (await offset(server))
    await until(synced, { within: sceneTimeout })
    line.blackHole()
    const held = await first(a, maxTtl)
    history.fault('fail-over')
    await server.kill9()
    await replica.cli('REPLICAOF', 'NO', 'ONE')
    const b = await stage.newcomer('B', [replica])
    if (stage.way === holdfastRedisShort) history.quarantine()
    const outcome = await secondHolder(held, b)
    await held.release().catch(() => undefined)
    return outcome
  },
}

export const forgetfulServer: RedisScene = {
  name: 'forgetful-server',
  title: 'Redlock’s forgetful server',
  story:
    'A has the votes of servers 1 and 2 of three; the third is out of its reach. Server 2 restarts without data. Then B asks 2 and 3.',
  holdfastDoes:
    'Servers remember each other. One that may have forgotten votes is left out until all those votes have expired.',
  page: 'hazards.md#several-servers',
  naive: naiveMajority,
  holdfast: holdfastRedlock,
  servers: 3,
  async run(stage) {
    const [a, b] = [await stage.player('A'), await stage.player('B')]
    a.cables[2]?.blackHole()
    const held = await first(a, maxTtl)
    const back = stage.history.fault('server 2 restarts, empty')
    const [, forgetful] = stage.servers
    await forgetful?.kill9()
    await forgetful?.restart({ keepData: false })
    back()
    await answering(b.clients)
    const outcome = await secondHolder(held, b)
    await held.release().catch(() => undefined)
    return outcome
  },
}
