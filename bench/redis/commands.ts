/** Counts commands exactly: those sent by clients, as the server's MONITOR shows them, separately from those run by scripts. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'

export interface Counted {
  /** Commands sent by clients. */
  readonly sent: number
  /** Commands run by scripts. */
  readonly inside: number
  /** The sent ones by name, lower case. */
  readonly byName: Readonly<Record<string, number>>
}

export interface Counter {
  /** Counts since the start or the last call: everything the server answered before this call. */
  look(): Promise<Counted>
  stop(): Promise<void>
}

/** Slows the server down a little: count in one run, measure time in another. */
export async function countCommands(port: number): Promise<Counter> {
  const watch = connect(port, '127.0.0.1')
  const mark = connect(port, '127.0.0.1')
  await Promise.all([once(watch, 'connect'), once(mark, 'connect')])
  mark.resume()
  watch.setEncoding('utf8')
  let sent = 0
  let inside = 0
  let byName: Record<string, number> = {}
  let rest = ''
  let ready: (() => void) | undefined
  let marked: { readonly id: string; readonly resolve: () => void } | undefined
  watch.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\r\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      // +1700000000.123456 [0 127.0.0.1:50000] "set" "key" "value"        or  [0 lua]
      const found = /^\+[\d.]+ \[\d+ (\S+)\] "(\w+)"/.exec(line)
      if (found === null) ready?.()
      else if (marked !== undefined && line.includes(marked.id)) marked.resolve()
      else if (found[1] === 'lua') inside++
      else {
        const name = found[2]?.toLowerCase() ?? ''
        sent++
        byName[name] = (byName[name] ?? 0) + 1
      }
    }
  })
  await new Promise<void>((resolve) => {
    ready = resolve
    watch.write('MONITOR\r\n')
  })
  return {
    async look() {
      await new Promise<void>((resolve) => {
        marked = { id: randomUUID(), resolve }
        mark.write(`PING ${marked.id}\r\n`)
      })
      const counted = { sent, inside, byName }
      sent = 0
      inside = 0
      byName = {}
      return counted
    },
    async stop() {
      for (const socket of [watch, mark]) {
        socket.destroy()
        await once(socket, 'close')
      }
    },
  }
}
