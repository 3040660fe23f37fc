/**
 * What the driver sees of ioredis, over a simulated connection. Like the real one by default, it queues commands while it
 * is disconnected, and resends unanswered commands after a reconnect: so a command may be executed twice.
 */
import { EventEmitter } from 'node:events'
import type { SimulatedProcess } from '../../process.js'
import type { Network, Wire } from '../../wire.js'
import type { Reply } from './machine.js'

export interface Command {
  readonly id: number
  readonly name: string
  readonly args: readonly string[]
}
export type ServerMessage =
  | { readonly id: number; readonly reply: Reply }
  | { readonly id: number; readonly error: string }
  | { readonly channel: string; readonly text: string }

interface Pending {
  readonly command: Command
  resolve(reply: Reply): void
  reject(error: Error): void
}

export class SimulatedIoredis extends EventEmitter {
  status = 'connecting'
  readonly options: { readonly keyPrefix: string } = { keyPrefix: '' }
  readonly #process: SimulatedProcess
  readonly #network: Network<Command, ServerMessage>
  readonly #wire: Wire<Command>
  readonly #pending = new Map<number, Pending>()
  readonly #broke: () => void
  #last = 0

  /** @param broke called when the process notices that the connection has broken */
  constructor(process: SimulatedProcess, network: Network<Command, ServerMessage>, broke: () => void) {
    super()
    this.#broke = broke
    this.#process = process
    this.#network = network
    this.#wire = network.connect(process, {
      heard: (message) => this.#onMessage(message),
      noticed: (up) => {
        this.status = up ? 'ready' : 'reconnecting'
        if (!up) this.#broke()
        if (up) for (const { command } of this.#pending.values()) this.#wire.send(command)
        this.emit(up ? 'ready' : 'close')
      },
    })
  }

  evalsha(sha: string, count: number, keys: readonly string[], args: readonly string[]): Promise<Reply> {
    return this.#send('EVALSHA', [sha, `${count}`, ...keys, ...args])
  }

  eval(text: string, count: number, keys: readonly string[], args: readonly string[]): Promise<Reply> {
    return this.#send('EVAL', [text, `${count}`, ...keys, ...args])
  }

  call(name: string, ...args: string[]): Promise<Reply> {
    return this.#send(name, args)
  }

  subscribe(channel: string): Promise<Reply> {
    return this.#send('SUBSCRIBE', [channel])
  }

  unsubscribe(channel: string): Promise<Reply> {
    return this.#send('UNSUBSCRIBE', [channel])
  }

  duplicate(): SimulatedIoredis {
    return new SimulatedIoredis(this.#process, this.#network, this.#broke)
  }

  disconnect(): void {
    if (this.status === 'end') return
    this.status = 'end'
    this.#wire.close()
    for (const { reject } of this.#pending.values()) reject(new Error('Connection is closed.'))
    this.#pending.clear()
    this.emit('close')
    this.emit('end')
  }

  #send(name: string, args: readonly string[]): Promise<Reply> {
    if (this.status === 'end') return Promise.reject(new Error('Connection is closed.'))
    return new Promise((resolve, reject) => {
      const command = { id: ++this.#last, name, args }
      this.#pending.set(command.id, { command, resolve, reject })
      this.#wire.send(command)
    })
  }

  #onMessage(message: ServerMessage): void {
    if ('channel' in message) {
      this.emit('message', message.channel, message.text)
      return
    }
    const pending = this.#pending.get(message.id)
    this.#pending.delete(message.id)
    if ('error' in message) pending?.reject(new Error(message.error))
    else pending?.resolve(message.reply)
  }
}
