/**
 * Identifies the kind of server at an address, for a message after the protocol of the URL has failed. Each kind is recognized by its reply
 * to a new connection; nothing logs in, and nothing is changed.
 */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type Address, hostPort } from '../url.js'
import { ask } from './ask-http.js'

/** How long each kind may take to reveal itself, in ms. */
const patience = 1_500

interface Kind {
  readonly name: string
  /** The scheme to write in the URL. */
  readonly scheme: string
  readonly shows: (at: Address) => Promise<boolean>
}

const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

const kinds: readonly Kind[] = [
  {
    ...{ name: 'a Redis Sentinel', scheme: 'redis+sentinel:' },
    shows: async (at) => /redis_mode:sentinel/.test(await reply(at, 'INFO server\r\n')),
  },
  {
    ...{ name: 'Redis or Valkey', scheme: 'redis:' },
    shows: async (at) =>
      /^(?:\+PONG|-NOAUTH|-DENIED|-ERR|-LOADING|-MISCONF)/.test(await reply(at, 'PING\r\n')),
  },
  {
    ...{ name: 'PostgreSQL', scheme: 'postgres:' },
    shows: async (at) => /^[SN]$/.test(await reply(at, sslRequest)),
  },
  {
    // The MySQL greeting: three bytes of length, the number 0, protocol 10, and the version.
    ...{ name: 'MySQL or MariaDB', scheme: 'mysql:' },
    shows: async (at) => {
      const heard = await reply(at, '')
      return heard.charCodeAt(3) === 0 && heard.charCodeAt(4) === 10 && /^[\d.]+/.test(heard.slice(5))
    },
  },
  {
    ...{ name: 'ZooKeeper', scheme: 'zookeeper:' },
    shows: async (at) => /^Zookeeper version|is not executed because/.test(await reply(at, 'srvr')),
  },
  {
    ...{ name: 'etcd', scheme: 'etcd:' },
    shows: async (at) => /"etcdserver"/.test((await get(at, '/version')).text),
  },
  {
    ...{ name: 'Consul', scheme: 'consul:' },
    shows: async (at) => {
      const { status, text } = await get(at, '/v1/status/leader')
      return status === 200 && /^"[^"]*"$/.test(text.trim())
    },
  },
]

/** Undefined: no known kind, or not in time. */
export async function whoAnswers(
  at: Address,
): Promise<{ readonly name: string; readonly scheme: string } | undefined> {
  const shown = await Promise.all(kinds.map(({ shows }) => shows(at).catch(() => false)))
  return kinds[shown.indexOf(true)]
}

/** Does it speak TLS? Its certificate is not checked: nothing is sent. */
export function speaksTls({ host, port }: Address): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTls({ host, port, rejectUnauthorized: false })
    const end = (answer: boolean) => {
      clearTimeout(late)
      socket.destroy()
      resolve(answer)
    }
    const late = setTimeout(() => end(false), patience)
    socket
      .on('secureConnect', () => end(true))
      .on('error', () => end(false))
      .on('close', () => end(false))
  })
}

function get(at: Address, path: string) {
  return ask(`http://${hostPort(at)}${path}`, { method: 'GET', patience })
}

/** The first bytes of the reply, one character each; empty if there is none. */
function reply({ host, port }: Address, words: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const end = (heard: string) => {
      clearTimeout(late)
      socket.destroy()
      resolve(heard)
    }
    const late = setTimeout(() => end(''), patience)
    socket.setEncoding('latin1').on('data', (text: string) => end(text))
    socket.on('error', () => end('')).on('close', () => end(''))
    if (words !== '') socket.write(words)
  })
}
