/** One HTTP/2 connection to a member. It is opened when it is needed, and replaced when it seems dead. */
import { createSecureContext } from 'node:tls'
import type { Clock } from '../../../core/clock.js'
import { NoResponseError, type TlsOptions } from '../../kit/http.js'
import type { GrpcClient, GrpcMetadata, GrpcModule, GrpcStream } from './client.js'

/** `heard`: the clock reading at which the last message arrived. */
export interface Channel {
  readonly client: GrpcClient
  heard: number
}

const options = {
  // A list of many locks is longer than the 4 MiB of the library's default. What may be sent, etcd limits.
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  // Only we send a call again: a request that may have been sent twice must be known as such.
  'grpc.enable_retries': 0,
  // A connection of our own, so that a new channel is a new connection.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.enable_channelz': 0,
  // Finds out that a silent connection is dead. etcd refuses more than one ping in five seconds.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
}

export class Connection {
  readonly host: string
  readonly clock: Clock
  readonly #grpc: GrpcModule
  readonly #open: () => GrpcClient
  #channel: Channel | undefined
  #closed = false

  constructor(grpc: GrpcModule, url: URL, clock: Clock, tls: TlsOptions | undefined) {
    this.host = url.host
    this.clock = clock
    this.#grpc = grpc
    const credentials = url.protocol === 'https:' ? secure(grpc, tls) : grpc.credentials.createInsecure()
    const name = tls?.servername
    const more = name === undefined ? options : { ...options, 'grpc.ssl_target_name_override': name }
    const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port
    const address = `dns:${url.hostname}:${port}`
    this.#open = () => new grpc.Client(address, credentials as never, more as never)
  }

  /** @throws NoResponseError when it was closed: nothing opens a connection that nobody would close */
  get channel(): Channel {
    if (this.#closed) throw new NoResponseError('this process ended the request', false)
    this.#channel ??= { client: this.#open(), heard: Number.NEGATIVE_INFINITY }
    return this.#channel
  }

  /** The calls on it go on; the next one opens a new connection. */
  replace(channel: Channel): void {
    if (channel !== this.#channel) return
    this.#channel = undefined
    closeLater(channel.client)
  }

  /** A call that was sent at `sent` has had no answer in time. Has anything else been answered since? */
  silent(channel: Channel, sent: number): void {
    if (channel.heard <= sent) this.replace(channel)
  }

  stream(channel: Channel, path: string, login: string | undefined, requireLeader = false): GrpcStream {
    const metadata = this.metadata(login)
    // A member that has lost its leader then ends the stream, instead of keeping silent.
    if (requireLeader) metadata.set('hasleader', 'true')
    return channel.client.makeBidiStreamRequest(path, asIs, asIs, metadata as never)
  }

  metadata(login: string | undefined): GrpcMetadata {
    const metadata = new this.#grpc.Metadata()
    if (login !== undefined) metadata.set('token', login)
    return metadata
  }

  close(): void {
    this.#closed = true
    if (this.#channel !== undefined) this.replace(this.#channel)
  }
}

export const asIs = (bytes: Buffer): Buffer => bytes

/**
 * The library looks for the address in an immediate that it does not cancel. A client that is closed before that connects all the same,
 * and again after each break, for ever. A call's immediate is set at the end of its turn, so the one after the next comes later.
 */
function closeLater(client: GrpcClient): void {
  setImmediate(() => setImmediate(() => client.close()))
}

/** Node may abort the process if a call is cancelled in the turn in which data arrived (nodejs/node#38964). */
export function cancelLater(call: Pick<GrpcStream, 'cancel'>): void {
  setImmediate(() => call.cancel())
}

function secure(grpc: GrpcModule, tls: TlsOptions = {}): unknown {
  const { servername, rejectUnauthorized, ...keys } = tls
  const verify = rejectUnauthorized === undefined ? {} : { rejectUnauthorized }
  return grpc.credentials.createFromSecureContext(createSecureContext(keys), verify as never)
}
