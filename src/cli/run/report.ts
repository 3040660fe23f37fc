/** Progress of `holdfast run` on stderr: one line rewritten in place on a terminal, few lines elsewhere, or JSON. */
import type { WaitStatus } from 'holdfast'
import { formatDuration } from '../duration.js'
import { brief, json, plain } from '../print.js'
import { type StatusLine, statusLine } from '../tty.js'
import { machineTime, type ToSupervisor } from './messages.js'

export interface ReportOptions {
  /** Names of the requested locks. */
  readonly names: readonly string[]
  readonly json: boolean
  readonly quiet: boolean
  readonly stream: NodeJS.WriteStream
}

type Waiting = Omit<Extract<ToSupervisor, { type: 'waiting' }>, 'type'>

export interface Report {
  /** Who blocks the claim, whenever that changes. */
  waiting(message: Waiting): void
  /** The wait has ended, with or without the lock. */
  waited(): void
  /** A message to the user: `event` and `facts` for programs, `text` for people. Suppressed by --quiet, unless it is an error. */
  write(event: string, facts: object, text: string | undefined, error?: boolean): void
}

/** Off a terminal, waits shorter than this are not reported. In ms. */
const quietPeriod = 1000
const redraw = 1000

export function createReport(options: ReportOptions): Report {
  const { stream } = options
  // A closed terminal is no reason to abandon the command.
  stream.on('error', () => undefined)
  const tell = createTell(options, (line) => void stream.write(line))
  const wait = waitReport(options, tell)
  const pausing: Report['write'] = (...told) => {
    wait.pause()
    tell(...told)
  }
  return { ...wait, write: pausing }
}

/** @param write gets whole lines */
export function createTell(
  { names, json: asJson, quiet }: Omit<ReportOptions, 'stream'>,
  write: (line: string) => void,
): Report['write'] {
  const [name, ...others] = names
  const about = others.length === 0 ? { name } : { names }
  return (event, facts, text, error = false) => {
    if (asJson) write(`${json({ event, ...about, ...facts })}\n`)
    else if (text !== undefined && (error || !quiet)) write(`holdfast: ${text}\n`)
  }
}

function waitReport(
  options: ReportOptions,
  tell: Report['write'],
): Pick<Report, 'waiting' | 'waited'> & { pause(): void } {
  const begun = machineTime()
  const line: StatusLine | undefined =
    options.stream.isTTY && !options.json && !options.quiet ? statusLine(options.stream) : undefined
  let known: (Wait & { readonly name: string }) | undefined
  let told: 'nothing' | 'error' | 'wait' = 'nothing'
  let timer: NodeJS.Timeout | undefined
  const isNews = createChangeFilter()
  const text = () =>
    known === undefined ? '' : waitingText(known.name, known, machineTime(), begun, options.names.length)
  const draw = () => line?.show(text())
  /** Off a terminal: prints the holder once, and each outage of the store once. */
  const say = () => {
    timer = undefined
    const now = known?.error === undefined ? 'wait' : 'error'
    if (told === now) return
    told = now
    tell('waiting', {}, text())
  }
  return {
    waiting: ({ name, blocked, waiters, error, atOnce = false }) => {
      const before = known?.name === name ? known : undefined
      known = {
        ...before,
        name,
        ...blocked,
        ...(waiters !== undefined && { waiters }),
        error: error?.message,
        at: machineTime(),
      }
      if (line !== undefined) {
        draw()
        timer ??= setInterval(draw, redraw)
      } else if (options.json) {
        if (!isNews({ name, blocked, ...(waiters !== undefined && { waiters }), ...(error && { error }) }))
          return
        const facts = { name, ...blocked, ...(error !== undefined && { error }) }
        tell('waiting', { ...facts, waited: Math.round(machineTime() - begun) }, undefined)
      } else if (atOnce && told === 'nothing') {
        clearTimeout(timer)
        say()
      } else if (told !== (error === undefined ? 'wait' : 'error')) timer ??= setTimeout(say, quietPeriod)
    },
    waited: () => {
      clearTimeout(timer)
      timer = undefined
      line?.clear()
    },
    pause: () => line?.clear(),
  }
}

/** Lets a report pass that says something else than the one before, or comes a second after it. */
function createChangeFilter(): (message: Waiting) => boolean {
  let last = ''
  let at = Number.NEGATIVE_INFINITY
  return ({ name, blocked: { holder, position }, waiters, error }) => {
    const { code, reason, address } = error ?? {}
    const news = JSON.stringify([
      name,
      holder?.attempt,
      holder?.token,
      position,
      waiters,
      code,
      reason,
      address,
    ])
    const now = machineTime()
    if (news === last && now - at < redraw) return false
    last = news
    at = now
    return true
  }
}

export interface Wait extends Omit<WaitStatus, 'error'> {
  readonly waiters?: number
  /** Why the store cannot be reached at present. */
  readonly error?: string | undefined
  /** Time of receipt, by `machineTime`. */
  readonly at: number
}

/**
 * `waiting 14s for "deploy", 2nd in the queue; held for 3m 12s by web-1:4711 ("nightly import")`; with several names `for "deploy" (one of 3)`
 * @param all number of requested names
 */
export function waitingText(name: string, wait: Wait, now: number, begun: number, all = 1): string {
  const { holder, position, waiters, error } = wait
  const of = waiters !== undefined && position !== undefined && waiters > position ? ` of ${waiters}` : ''
  const address = position === undefined ? '' : `, ${ordinal(position)}${of} in the queue`
  return `waiting ${formatDuration(now - begun)} for "${plain(name)}"${all === 1 ? '' : ` (one of ${all})`}${address}${holderText(holder, now - wait.at)}${error === undefined ? '' : `; the store cannot be asked: ${plain(error)}`}`
}

/** `later`: ms since the store reported it. */
export function holderText(holder: WaitStatus['holder'], later = 0): string {
  if (holder === undefined) return ''
  const note = holder.note === undefined ? '' : ` ("${brief(holder.note)}")`
  return `; held for ${formatDuration(holder.heldFor + later)} by ${brief(holder.client ?? 'somebody')}${note}`
}

export function ordinal(n: number): string {
  const last = n % 10
  const teen = Math.floor((n % 100) / 10) === 1
  return `${n}${teen ? 'th' : last === 1 ? 'st' : last === 2 ? 'nd' : last === 3 ? 'rd' : 'th'}`
}
