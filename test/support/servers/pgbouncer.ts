// PgBouncer 1.18 in front of a PostgreSQL server.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { unpacked } from './fetch.js'
import type { PostgresServer } from './postgres.js'
import { launch, onFreePort } from './process.js'
import { handOver, makeOwnFolder, readable, user } from './unprivileged.js'

export interface PgBouncer extends AsyncDisposable {
  readonly port: number
  /** Like the server's, through the pooler. */
  readonly url: string
  stop(): Promise<void>
}

/** @param size server connections, default 2 */
export async function startPgBouncer(
  server: PostgresServer,
  mode: 'transaction' | 'session',
  size = 2,
): Promise<PgBouncer> {
  const found = await unpacked('pgbouncer')
  return onFreePort(async (port) => {
    const folder = makeOwnFolder('pgbouncer')
    const root = readable(found.root, folder)
    const file = join(folder.path, 'ini')
    const log = join(folder.path, 'log')
    writeFileSync(log, '')
    const lines = [
      '[databases]',
      `postgres = host=127.0.0.1 port=${server.port} dbname=postgres user=postgres`,
      '[pgbouncer]',
      `listen_addr = 127.0.0.1\nlisten_port = ${port}\nunix_socket_dir =`,
      `auth_type = any\npool_mode = ${mode}\ndefault_pool_size = ${size}\nmax_client_conn = 500`,
    ]
    writeFileSync(file, `${lines.join('\n')}\n`)
    handOver(file)
    try {
      const running = await launch({
        name: `pgbouncer on port ${port}`,
        command: join(root, 'usr/sbin/pgbouncer'),
        args: [file],
        env: { LD_LIBRARY_PATH: found.libraries.replace(found.root, root) },
        folder: folder.path,
        log,
        ready: (logged) => /process up/.test(logged),
        user,
      })
      const stop = async (): Promise<void> => {
        await running.end('SIGKILL')
        await folder.remove()
      }
      const url = `postgres://postgres@127.0.0.1:${port}/postgres`
      return { port, url, stop, [Symbol.asyncDispose]: stop }
    } catch (error) {
      await folder.remove()
      throw error
    }
  })
}
