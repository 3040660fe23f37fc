// Redis that is reached over TLS: a server's arguments, a Cluster of one node, and a master with its Sentinel. Each has a plain port, too.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkout } from './places.js'
import { freePort } from './ports.js'
import { startRedis } from './redis.js'
import { startCluster } from './redis-cluster.js'
import { type RedisServer, startNode } from './redis-node.js'

const file = (name: string) => join(checkout, 'test/support/tls', name)
interface Certificate {
  readonly cert: string
  readonly key: string
}

/** For 127.0.0.1 and localhost, and for other.example. */
export const certificates: Readonly<Record<'right' | 'other', Certificate>> = {
  right: { cert: file('cert.pem'), key: file('key.pem') },
  other: { cert: file('other-cert.pem'), key: file('other-key.pem') },
}

export interface TlsSetup {
  /** Of TLS: of the node, or of the Sentinel. */
  readonly port: number
  /** The data server. */
  readonly server: RedisServer
  stop(): Promise<unknown>
}

export const tlsArgs = ({ cert, key }: Certificate, port: number): readonly string[] => [
  ...['--tls-port', `${port}`, '--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert],
  ...['--tls-auth-clients', 'no'],
]

export async function startTlsCluster(certificate: Certificate): Promise<TlsSetup> {
  const port = await freePort()
  const { nodes, stop } = await startCluster({
    masters: 1,
    args: [...tlsArgs(certificate, port), '--tls-cluster', 'yes', '--cluster-announce-ip', '127.0.0.1'],
  })
  return { port, server: nodes[0] as RedisServer, stop }
}

export async function startTlsSentinel({
  cert,
  key,
}: Certificate): Promise<TlsSetup & { readonly name: string }> {
  const [master, port] = [await freePort(), await freePort()]
  const server = await startRedis({ args: tlsArgs({ cert, key }, master) })
  const name = 'main'
  const sentinel = await startNode({
    flavour: 'redis7',
    role: 'sentinel',
    preload: [],
    args: (plain, data) => {
      const path = join(data, 'sentinel.conf')
      const lines = [
        ...[`port ${plain}`, 'bind 127.0.0.1', `dir ${data}`, 'logfile ""', `tls-port ${port}`],
        ...[`tls-cert-file ${cert}`, `tls-key-file ${key}`, `tls-ca-cert-file ${cert}`],
        ...['tls-auth-clients no', 'tls-replication yes', `sentinel monitor ${name} 127.0.0.1 ${master} 1`],
      ]
      writeFileSync(path, `${lines.join('\n')}\n`)
      return [path, '--sentinel']
    },
    ready: /\+monitor master|Sentinel ID is/,
  })
  return { name, port, server, stop: () => Promise.all([sentinel.stop(), server.stop()]) }
}
