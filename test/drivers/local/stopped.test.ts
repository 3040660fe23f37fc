// A broker that has stopped, over real sockets: what still arrives on its connections has no effect.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Broker, createBroker } from '../../../src/drivers/local/broker.js'
import { openJournal, readJournal } from '../../../src/drivers/local/journal.js'
import { thisProcess } from '../../../src/drivers/local/processes.js'
import { computeProof, version } from '../../../src/drivers/local/protocol.js'
import { acceptConnection } from '../../../src/drivers/local/server-connection.js'
import { fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory } from './processes.js'

const here = thisProcess()
const secret = 'the secret of the home file'
const nonce = '0123456789abcdef'
const hello = ['hello', version, nonce] as const
const enter = ['enter', { client: 'one', by: 'host:1', mark: here, held: [], asked: [] }] as const

interface Place {
  readonly broker: Broker
  readonly directory: string
  connect(): Promise<Peer>
  close(): Promise<void>
}

interface Peer {
  /** The next line from the broker. */
  answer(): Promise<readonly unknown[]>
  say(...messages: (readonly unknown[])[]): void
  /** Resolves with what was not read yet, once the broker's end has read everything and closed. */
  leave(): Promise<string>
}

async function place(): Promise<Place> {
  const directory = freshDirectory()
  const clock = fakeClock()
  const path = join(directory, 'socket')
  const broker = createBroker(readJournal(directory), {
    clock,
    wall: Date.now,
    uptime: () => clock.now(),
    here,
    open: (snapshot) => openJournal(directory, here, snapshot),
  })
  const server = createServer((socket) => {
    acceptConnection(socket, {
      broker,
      asBroker: (send) => send(),
      secret: () => secret,
      clock,
      unauthenticated: new Set(),
    })
  })
  await once(server.listen(path), 'listening')
  return {
    broker,
    directory,
    async connect() {
      const socket = connect(path)
      let text = ''
      socket.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      await once(socket, 'connect')
      return {
        async answer() {
          while (!text.includes('\n')) await once(socket, 'data')
          const end = text.indexOf('\n')
          const line = text.slice(0, end)
          text = text.slice(end + 1)
          return JSON.parse(line) as unknown[]
        },
        say(...messages) {
          socket.write(messages.map((message) => `${JSON.stringify(message)}\n`).join(''))
        },
        async leave() {
          socket.end()
          await once(socket, 'close')
          return text
        },
      }
    },
    async close() {
      server.close()
      await once(server, 'close')
    },
  }
}

/** The client's proof, from the broker's answer to its hello. */
function prove(answer: readonly unknown[]): readonly unknown[] {
  return ['prove', computeProof('client', secret, nonce, String(answer[2]))]
}

test('a greeting under way is answered no more: nobody enters a broker that has stopped', async () => {
  const { broker, connect, close } = await place()
  const [fresh, greeted, proven] = [await connect(), await connect(), await connect()]
  greeted.say(hello)
  proven.say(hello)
  const proof = prove(await greeted.answer())
  proven.say(prove(await proven.answer()))
  broker.stop()
  fresh.say(hello)
  greeted.say(proof, enter)
  proven.say(enter)
  for (const peer of [fresh, greeted, proven]) assert.equal(await peer.leave(), '')
  await close()
})

test('what a client still sends, and its end, change no file that has the number of the closed journal by then', async () => {
  const { broker, directory, connect, close } = await place()
  const peer = await connect()
  peer.say(hello)
  peer.say(prove(await peer.answer()), enter)
  assert.deepEqual(await peer.answer(), ['entered', []])
  peer.say([1, 'acquire', 'x', 'attempt', 'x', 60_000, false, 0, ''])
  assert.equal((await peer.answer())[1], 'granted')
  broker.stop()
  const content = 'of the application'
  const files = Array.from({ length: 16 }, (_, i) => join(directory, `file-${i}`))
  for (const file of files) writeFileSync(file, content)
  const numbers = files.map((file) => openSync(file, 'r+'))
  peer.say(
    [2, 'acquire', 'y', 'another', 'x', 60_000, false, 0, ''],
    [3, 'release', 'x', 'attempt', 1],
    ['bye'],
  )
  assert.equal(await peer.leave(), '')
  for (const number of numbers) closeSync(number)
  for (const file of files) assert.equal(readFileSync(file, 'utf8'), content)
  await close()
})

after(async () => {
  await endAll()
  await leakCheck()
})
