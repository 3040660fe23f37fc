/** Rung 6 again, and every lock on one server: if the server forgets a lock, it was never held. */
import { startProxy } from '../../test/support/proxy.js'
import { startRedis } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import { answering, openStage, patience } from './environment.js'
import { holdersAfterLoss, type Scene, take } from './lock.js'

export const emptyRestart: Scene = {
  name: 'empty restart',
  fault: 'A server is killed and comes back without its data, while the lock is held.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const [first, second] = [await stage.process(), await stage.process()]

    await take(first.lock, 30_000)
    await stage.server.kill9()
    await stage.server.restart({ keepData: false })
    await answering(second.clients)

    return await holdersAfterLoss(second.lock)
  },
}

export const failOver: Scene = {
  name: 'fail-over',
  fault: 'The server dies, and its replica, which has not got the lock yet, takes its place.',

  async run(recipe) {
    await using stage = await openStage(recipe)
    const { server } = stage
    await using line = await startProxy({ port: server.port })
    await using replica = await startRedis({ args: ['--replicaof', line.host, String(line.port)] })
    const first = await stage.process()
    const offset = async (of: typeof server) =>
      /master_repl_offset:(\d+)/.exec(String(await of.cli('INFO', 'replication')))?.[1]
    await until(
      async () =>
        String(await replica.cli('INFO', 'replication')).includes('master_link_status:up') &&
        (await offset(replica)) === (await offset(server)),
      { within: patience },
    )

    line.blackHole()
    await take(first.lock, 30_000)
    await server.kill9()
    await replica.cli('REPLICAOF', 'NO', 'ONE')
    const second = await stage.process([replica])

    return await holdersAfterLoss(second.lock)
  },
}
