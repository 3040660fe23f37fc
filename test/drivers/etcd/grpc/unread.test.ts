// Requests over gRPC, against a server in a thread of its own: etcd does not answer at a certain moment, and does not tell that it has.
import { after, test } from 'node:test'
import { GrpcMember } from '../../../../src/drivers/etcd/grpc/member.js'
import type { Method } from '../../../../src/drivers/etcd/member.js'
import { leakCheck } from '../../../support/leaks.js'
import { answering } from '../../support/standing-still.js'
import { grpcVersions } from '../support/grpc-versions.js'

const server = `
  const message = Buffer.concat([Buffer.alloc(5), Buffer.from(workerData.reply)])
  message.writeUInt32BE(workerData.reply.length, 1)
  const server = require('node:http2').createServer()
  server.on('stream', (stream) => {
    stream.on('error', () => undefined)
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.once('data', () => arrived((then) => stream.end(message, then)))
  })
  listen(server)`

/** With the revision 1; that of a keepalive for the lease 1. */
const asks: readonly (readonly [method: Method, ask: object, reply: readonly number[]])[] = [
  ['range', { key: '' }, [0x0a, 2, 0x18, 1]],
  ['keepAlive', { ID: '1' }, [0x0a, 2, 0x18, 1, 0x10, 1, 0x18, 10]],
]

for (const { version, load } of grpcVersions)
  for (const [method, ask, reply] of asks)
    test(`${version}: an answer to ${method} that arrived while the event loop stood still is read before it is given up`, async (t) => {
      const { port, clock, answerOne, standStill, stop } = await answering(server, { reply })
      const url = new URL(`http://127.0.0.1:${port}`)
      const member = new GrpcMember((await load()) as never, url, clock, undefined)
      t.after(() => {
        member.close()
        return stop()
      })
      answerOne()
      await member.send(method, ask, 200, undefined)
      const asked = member.send(method, ask, 200, undefined)
      await standStill()
      await asked
    })

after(leakCheck)
