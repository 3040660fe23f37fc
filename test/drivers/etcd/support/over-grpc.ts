// The package as a user gives it, with a look at what goes through it: which calls are made, and what their answers become.
import * as grpc from '@grpc/grpc-js'
import type { EtcdOptions } from '../../../../src/drivers/etcd/index.js'

export type Garble = (path: string, answer: Buffer) => Buffer

export interface Tapped {
  readonly module: NonNullable<EtcdOptions['grpc']>
  /** The last part of the path of each call, as in `Txn`; of a stream, when it is opened. */
  readonly made: string[]
  /** The number of messages sent over streams, by the same name. */
  readonly written: Record<string, number>
  garble: Garble
}

type Unary = grpc.Client['makeUnaryRequest']
type Bidi = grpc.Client['makeBidiStreamRequest']

const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1)

export function tapped(given: Tapped['module'] = grpc): Tapped {
  const library = given as typeof grpc
  const made: string[] = []
  const written: Record<string, number> = {}
  const own = { made, written, garble: (_path: string, answer: Buffer) => answer }
  class Client extends library.Client {
    override makeUnaryRequest: Unary = ((
      path: string,
      serialize: unknown,
      _asIs: unknown,
      ...rest: unknown[]
    ) => {
      made.push(nameOf(path))
      const garbling = (answer: Buffer) => own.garble(path, answer)
      return super.makeUnaryRequest.apply(this, [path, serialize, garbling, ...rest] as never)
    }) as Unary
    override makeBidiStreamRequest: Bidi = ((
      path: string,
      serialize: (bytes: Buffer) => Buffer,
      _asIs: unknown,
      ...rest: unknown[]
    ) => {
      const name = nameOf(path)
      made.push(name)
      const counting = (bytes: Buffer) => {
        written[name] = (written[name] ?? 0) + 1
        return serialize(bytes)
      }
      const garbling = (answer: Buffer) => own.garble(path, answer)
      return super.makeBidiStreamRequest.apply(this, [path, counting, garbling, ...rest] as never)
    }) as Bidi
  }
  return Object.assign(own, { module: { ...library, Client } })
}
