/**
 * The process that `holdfast hold` leaves behind: the supervisor of a run (`run/supervisor.ts`) whose command is an existing process, the owner. It
 * ends with its owner, with `holdfast release NAME --token N`, or with the lease; in the last case it ends the owner, as it would the
 * command of a run.
 */
import type { Server } from 'node:net'
import { quoted } from '../print.js'
import type { Child, Ending } from '../run/child.js'
import { endGroup } from '../run/group.js'
import { createTell, type Report } from '../run/report.js'
import { holdFor, type SupervisorPlan } from '../run/supervisor.js'
import { scriptErrors } from './errors.js'
import { type Handle, listenFor, type Released } from './handle.js'
import type { HoldPlan, ToBackground, ToStarter } from './messages.js'
import { hasEnded, type Owner } from './owner.js'

/** How often to check whether the owner has ended, in ms. */
const checkInterval = 200

process.title = 'holdfast hold'
const replyRetention = new Promise<boolean>((resolve) => {
  process.on('message', (message: ToBackground) => message.type === 'kept' && resolve(true))
  process.once('disconnect', () => resolve(false))
})
process.once('message', (plan: HoldPlan) => void serve(plan))

function send(message: ToStarter): void {
  if (process.connected) process.send?.(message, () => undefined)
}

async function serve({ claim, conflictExitCode, owner, told }: HoldPlan): Promise<void> {
  const errors: string[] = []
  const script = told && scriptErrors()
  const tellScript = told && script && createTell({ names: claim.names, ...told }, script.write)
  const report = reportTo(claim, () => (held ? tellScript : undefined), errors)
  let over: (released: Released) => void = () => undefined
  const released = new Promise<Released>((resolve) => {
    over = resolve
  })
  const [name = ''] = claim.names
  const start: SupervisorPlan['start'] = async ([token = 0]) => {
    const child = await adopt(owner, { url: claim.on ?? '', name, token }, released)
    const open = () => {
      held = true
      child.open()
    }
    return { ...child, open }
  }
  // A disconnect ends the wait, as it does for a run; once the lock is held, `adopt` decides.
  let held = false
  process.once('disconnect', () => held || process.emit('SIGTERM', 'SIGTERM'))
  const plan: SupervisorPlan = {
    ...{ claim, conflictExitCode, env: process.env, findJobControl: () => 'session', start },
    ...(script && { onJudged: script.close }),
  }
  const exitCode = await holdFor(plan, report)
  send({ type: 'over', exitCode })
  over({ exitCode, messages: errors })
  if (process.connected) process.disconnect()
}

/**
 * @param script reports to the script; undefined: not yet, or nothing can be reported to it
 * @param errors the errors that a release reports
 */
function reportTo(
  { names }: HoldPlan['claim'],
  script: () => Report['write'] | undefined,
  errors: string[],
): Report {
  return {
    waiting: (...args) => send({ type: 'waiting', args }),
    waited: () => send({ type: 'waited', args: [] }),
    write: (...args) => {
      const [event, facts, text, error] = args
      if (error === true && text !== undefined) errors.push(text)
      const tell = script()
      if (tell === undefined) send({ type: 'tell', args })
      else tell(event, facts, text && `${quoted(names)}: ${text}`, error)
    },
  }
}

/** The owner in the form of a started command: it ends when the owner does, or when the lock is to be released. */
async function adopt(owner: Owner, handle: Handle, released: Promise<Released>): Promise<Child> {
  let opened = false
  /** The owner has ended, or has asked to release the lock: it no longer counts on the lock, and nobody ends it. */
  let isDone = false
  let end: (ending: Ending) => void = () => undefined
  const ended = new Promise<Ending>((resolve) => {
    end = resolve
  })
  const finish = () => {
    isDone = true
    end({ code: 0 })
  }
  const server: Server = await listenFor(handle, () => {
    finish()
    return released
  })
  const look = setInterval(() => hasEnded(owner) && finish(), checkInterval)
  void ended.then(() => clearInterval(look))
  void released.then(() => server.close())
  return {
    group: owner.pid,
    open: () => {
      opened = true
      send({ type: 'held', token: handle.token })
      void replyRetention.then((is) => is || finish())
    },
    abandon: () => end({ code: 0 }),
    end: () => (opened && !isDone ? endGroup(owner.pid) : Promise.resolve()),
    resume: () => undefined,
    ended,
  }
}
