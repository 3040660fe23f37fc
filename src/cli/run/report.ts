/** What `holdfast run` says on stderr while it goes on: one line that is written over on a terminal, few lines elsewhere, or JSON. */
import type { Blocked } from 'holdfast'
import { formatDuration } from '../duration.js'
import { json, plain } from '../print.js'
import { type StatusLine, statusLine } from '../tty.js'
import { machineTime } from './messages.js'

export interface ReportOptions {
  readonly name: string
  readonly json: boolean
  readonly quiet: boolean
  readonly stream: NodeJS.WriteStream
}

export interface Report {
  /** Who is in the way, whenever something new is known. */
  waiting(blocked: Omit<Blocked, 'trouble'>, waiters: number | undefined, trouble: string | undefined): void
  /** The wait is over, one way or another. */
  waited(): void
  /** Something the user should know: `event` and `facts` for programs, `text` for people. Not with --quiet, unless it is an error. */
  tell(event: string, facts: object, text: string | undefined, error?: boolean): void
}

/** Off a terminal nobody wants to read about a wait of a moment, in ms. */
const quietWait = 1000
const redraw = 1000

export function report(options: ReportOptions): Report {
  const { stream, quiet } = options
  // A terminal that was closed is no reason to leave the command alone.
  stream.on('error', () => undefined)
  const tell: Report['tell'] = (event, facts, text, error = false) => {
    if (options.json) stream.write(`${json({ event, name: options.name, ...facts })}\n`)
    else if (text !== undefined && (error || !quiet)) stream.write(`holdfast: ${text}\n`)
  }
  const wait = waitReport(options, tell)
  const pausing: Report['tell'] = (...told) => {
    wait.pause()
    tell(...told)
  }
  return { ...wait, tell: pausing }
}

function waitReport(
  options: ReportOptions,
  tell: Report['tell'],
): Pick<Report, 'waiting' | 'waited'> & { pause(): void } {
  const begun = machineTime()
  const line: StatusLine | undefined =
    options.stream.isTTY && !options.json && !options.quiet ? statusLine(options.stream) : undefined
  let known: Wait | undefined
  let told = false
  let timer: NodeJS.Timeout | undefined
  const text = () => (known === undefined ? '' : waitingText(options.name, known, machineTime(), begun))
  const draw = () => line?.show(text())
  return {
    waiting: (blocked, waiters, trouble) => {
      known = { ...known, ...blocked, ...(waiters !== undefined && { waiters }), trouble, at: machineTime() }
      if (line !== undefined) {
        draw()
        timer ??= setInterval(draw, redraw)
      } else if (options.json) {
        const facts = { ...blocked, ...(trouble !== undefined && { trouble }) }
        tell('waiting', { ...facts, waited: Math.round(machineTime() - begun) }, undefined)
      } else if (!told) {
        timer ??= setTimeout(() => {
          told = true
          tell('waiting', {}, text())
        }, quietWait)
      }
    },
    waited: () => {
      clearTimeout(timer)
      timer = undefined
      line?.clear()
    },
    pause: () => line?.clear(),
  }
}

export interface Wait extends Omit<Blocked, 'trouble'> {
  readonly waiters?: number
  /** Why the store cannot be asked at present. */
  readonly trouble?: string | undefined
  /** When this was heard, by `machineTime`. */
  readonly at: number
}

/** `waiting 14s for "deploy", 2nd in line; held for 3m 12s by web-1:4711 ("nightly import")` */
export function waitingText(name: string, wait: Wait, now: number, begun: number): string {
  const { holder, position, waiters, trouble } = wait
  const of = waiters !== undefined && position !== undefined && waiters > position ? ` of ${waiters}` : ''
  const place = position === undefined ? '' : `, ${ordinal(position)}${of} in line`
  return `waiting ${formatDuration(now - begun)} for "${plain(name)}"${place}${holderText(holder, now - wait.at)}${trouble === undefined ? '' : `; the store cannot be asked: ${plain(trouble)}`}`
}

/** `later`: ms since the store said so. */
export function holderText(holder: Blocked['holder'], later = 0): string {
  if (holder === undefined) return ''
  const note = holder.note === undefined ? '' : ` ("${plain(holder.note)}")`
  return `; held for ${formatDuration(holder.heldFor + later)} by ${plain(holder.by ?? 'somebody')}${note}`
}

export function ordinal(n: number): string {
  const last = n % 10
  const teen = Math.floor((n % 100) / 10) === 1
  return `${n}${teen ? 'th' : last === 1 ? 'st' : last === 2 ? 'nd' : last === 3 ? 'rd' : 'th'}`
}
