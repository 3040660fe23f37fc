/**
 * The front: the process the user started (for its messages to and from the keeper see `messages.ts`). It does everything about the command
 * except decide when it must end: terminal, signals, exit code.
 *
 * It is also the keeper's understudy: if the keeper is killed or stopped, the front ends the command before the last proven moment of the lease.
 *
 * Long because what the front does with signals, terminal and keeper belongs together: every message and every signal depends on the same
 * few facts about one run.
 */
import type { ChildProcess } from 'node:child_process'
import { exits } from '../exit.js'
import { plain } from '../print.js'
import { inForeground } from '../tty.js'
import {
  type Child,
  EndedEarly,
  type Ending,
  linesOf,
  lostNames,
  type Place,
  placeOfCommand,
  startChild,
} from './child.js'
import { checkCommand } from './command.js'
import { type Understudy, understudy } from './deadman-timer.js'
import { linesFor } from './descriptors.js'
import {
  exitCodeAfter,
  type Run,
  tellBusy,
  tellDone,
  tellDoubtful,
  tellLeftovers,
  tellStopping,
  tellTakeOver,
  unstartable,
} from './exit-report.js'
import { signalGroup } from './group.js'
import type { Claim, Terms, ToFront, ToKeeper } from './messages.js'
import { understudyAt } from './policy.js'
import type { Report } from './report.js'
import { endsWait, stopSelf, type Taken, takeSignals } from './signals.js'
import { startBeside, type Watcher } from './spawn-helpers.js'
import { variablesOf } from './variables.js'

interface Plan {
  readonly claim: Claim
  readonly env: NodeJS.ProcessEnv
  readonly conflictExitCode: number
}

export interface CommandPlan extends Plan {
  readonly command: readonly string[]
}

/** What the lock is held for: a command started behind a gate, or the owner of a `hold`, which was running before. */
export interface FrontPlan extends Plan {
  readonly place: Place
  start(tokens: readonly number[], onStopped: () => void): Promise<Child>
}

/** @returns the exit code. @throws CliError before anything is locked. */
export async function runCommand(plan: CommandPlan, report: Report): Promise<number> {
  const { claim, command, env } = plan
  checkCommand(command, env)
  const place = placeOfCommand()
  linesFor(linesOf(place))
  tellLostNames(report, env)
  const start: FrontPlan['start'] = (tokens, onStopped) =>
    startChild(command, { ...env, ...variablesOf(claim.names, tokens) }, place, onStopped)
  return await new Front({ ...plan, place, start }, report).run()
}

/** @returns the exit code. */
export async function holdFor(plan: FrontPlan, report: Report): Promise<number> {
  return await new Front(plan, report).run()
}

function tellLostNames(report: Report, env: NodeJS.ProcessEnv): void {
  const names = lostNames(env)
  if (names.length === 0) return
  const text = `/bin/sh hands no variables with such names on, and there is no bash: the command will not see ${names.map(plain).join(', ')}`
  report.tell('variables', { names }, text)
}

class Front {
  readonly #plan: FrontPlan
  readonly #report: Report
  readonly #watcher: Watcher | undefined
  readonly #keeper: ChildProcess
  readonly #result: Promise<number>
  #resolve: (code: number) => void = () => undefined
  #child: Child | undefined
  #ending: Ending | undefined
  /** The gate has been opened. */
  #running = false
  /** The signal that ended the wait. */
  #cancelled: Taken | undefined
  /** The exit code if the command could not be started. */
  #unstarted: number | undefined
  /** This process received INT; if it came from the terminal, the processes around it received it, too. */
  #hadInt = false
  readonly #place: Place
  readonly #understudy: Understudy
  #heldUntil = Number.POSITIVE_INFINITY
  /** The requested terms, until the keeper knows what the lease can keep. */
  #terms: Terms
  /** The keeper has reported that it is ending the command. */
  #stopping = false
  #over = false
  /** Was the lease held until the command ended? Undefined: the keeper has not reported it. */
  #held: boolean | undefined

  constructor(plan: FrontPlan, report: Report) {
    this.#plan = plan
    this.#place = plan.place
    this.#terms = plan.claim
    this.#report = report
    this.#result = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#understudy = understudy(() => void this.#takeOver('the keeper of the lock does not react'))
    const { watcher, keeper } = startBeside()
    this.#watcher = watcher
    this.#keeper = keeper
  }

  async run(): Promise<number> {
    const restore = takeSignals((signal) => this.#take(signal))
    this.#keeper.on(
      'message',
      (message: ToFront) => void this.#hear(message).catch((error) => this.#fail(error)),
    )
    this.#keeper.once('error', (error) => this.#fail(error))
    // Not 'exit', which may come before the keeper's last messages.
    this.#keeper.once('disconnect', () => void this.#takeOver('the keeper of the lock was killed'))
    this.#tell(this.#plan.claim)
    const code = await this.#result
    this.#understudy.stop()
    this.#report.waited()
    this.#watcher?.dismiss()
    if (this.#keeper.connected) this.#keeper.disconnect()
    // The keeper may have broker duties to hand over.
    this.#keeper.unref()
    restore()
    this.#passInterruptOn(code)
    return code
  }

  #tell(message: ToKeeper): void {
    // A keeper's end is noticed by its exit.
    if (this.#keeper.connected) this.#keeper.send(message, () => undefined)
  }

  async #hear(message: ToFront): Promise<void> {
    if (this.#over) return
    switch (message.type) {
      case 'waiting':
        return this.#report.waiting(message)
      case 'granted':
        return await this.#granted(message.tokens)
      case 'busy':
        this.#report.waited()
        tellBusy(this.#report, message, this.#plan.claim, this.#plan.env)
        return this.#finish(this.#plan.conflictExitCode)
      case 'failed':
        this.#report.tell('failed', { message: message.message }, message.message, true)
        return await this.#endWith(message.exitCode)
      case 'go':
        return this.#go(message)
      case 'proof':
        return this.#proven(message.heldUntil)
      case 'doubtful':
        return tellDoubtful(this.#report, message)
      case 'stopping':
        this.#stopping = true
        this.#proven(this.#heldUntil)
        return tellStopping(this.#report, message, this.#plan.claim)
      case 'judged':
        // No command is left to end in the keeper's place.
        this.#understudy.stop()
        this.#held = message.held
        return
      case 'signal':
        return this.#take(message.signal as Taken)
      case 'done':
        return this.#done(message)
    }
  }

  async #granted(tokens: readonly number[]): Promise<void> {
    this.#report.waited()
    if (this.#cancelled !== undefined) return
    const start = this.#plan.start(tokens, () => this.#stopped())
    const child = await start.catch((error: unknown) => {
      // ^C may end the shell that is about to start the command; it may or may not have reached us, too.
      if (error instanceof EndedEarly && error.ending.code === 130 && this.#cancelled === undefined)
        this.#cancel('SIGINT')
      if (this.#cancelled === undefined) this.#notStarted(error)
    })
    if (child === undefined) return
    this.#child = child
    child.ended.then(
      (ending) => this.#ended(ending),
      (error) => this.#fail(error),
    )
    if (this.#cancelled !== undefined || this.#over) return child.abandon()
    this.#watcher?.watch(child.group)
    this.#tell({ type: 'started', group: child.group })
    this.#report.tell(
      'granted',
      { ...(tokens.length === 1 ? { token: tokens[0] } : { tokens }), group: child.group },
      undefined,
    )
  }

  /** Nothing is running that needs the lock: the keeper releases it. */
  #notStarted(error: unknown): void {
    const { code, message } = unstartable(error)
    this.#report.tell('failed', { message }, message, true)
    this.#unstarted = code
    this.#tell({ type: 'cancel' })
  }

  #proven(heldUntil: number): void {
    this.#heldUntil = heldUntil
    if (this.#held !== undefined) return
    this.#understudy.expect(understudyAt(this.#terms, heldUntil, this.#stopping))
  }

  #go({ heldUntil, terms }: Extract<ToFront, { type: 'go' }>): void {
    if (this.#cancelled !== undefined || this.#child === undefined) return
    this.#running = true
    this.#terms = terms
    this.#proven(heldUntil)
    this.#child.open()
  }

  #ended(ending: Ending): void {
    this.#ending = ending
    this.#tell({ type: 'ended' })
  }

  #run(): Run {
    const [{ ttl }, { claim }] = [this.#terms, this.#plan]
    const { for: holder } = claim
    return {
      ran: this.#running,
      ending: this.#ending,
      cancelled: this.#cancelled,
      held: this.#held,
      ttl,
      for: holder,
    }
  }

  #done(message: Extract<ToFront, { type: 'done' }>): void {
    const run = this.#run()
    if (message.stopped === undefined) tellLeftovers(this.#report, this.#child)
    tellDone(this.#report, message, run)
    this.#finish(this.#unstarted ?? exitCodeAfter(message, run))
  }

  #take(signal: Taken): void {
    if (signal === 'SIGINT') this.#hadInt = true
    if (!this.#running || this.#ending !== undefined) return this.#takeIdle(signal)
    // The shell continues a stopped job, in its own time.
    if (signal === 'SIGCONT' && this.#place === 'job') return
    const group = this.#child?.group ?? 0
    if (signal === 'SIGTSTP' && this.#place !== 'job') {
      // The command's session has no terminal, so the kernel would ignore TSTP.
      signalGroup(group, 'SIGSTOP')
      return stopSelf(() => signalGroup(group, 'SIGCONT'))
    }
    signalGroup(group, signal)
  }

  /** A signal before the command runs ends the wait; after the command has ended, it ends the rest of --min-hold. */
  #takeIdle(signal: Taken): void {
    if (signal === 'SIGTSTP') return stopSelf(() => undefined)
    if (endsWait(signal)) this.#cancel(signal)
  }

  #cancel(signal: Taken): void {
    if (this.#ending === undefined) this.#cancelled ??= signal
    this.#report.waited()
    this.#child?.abandon()
    this.#tell({ type: 'cancel' })
  }

  /** ^Z stopped the job: stop this process, too, so that the shell takes over; then continue as the shell wants, in foreground or background. */
  #stopped(): void {
    stopSelf(() => this.#child?.resume(inForeground() ? 'fg' : 'bg'))
  }

  /** The lock is free or soon will be, and no other process ends the command. */
  async #takeOver(why: string): Promise<void> {
    if (this.#over) return
    await this.#endWith(tellTakeOver(this.#report, why, this.#run()))
  }

  #finish(code: number): void {
    this.#over = true
    this.#resolve(code)
  }

  /** The result is decided: the keeper and the gate end next, which needs no report. */
  async #endWith(code: number): Promise<void> {
    this.#over = true
    this.#child?.abandon()
    await this.#child?.end()
    // A stopped keeper would hold the lock for ever.
    this.#keeper.kill('SIGKILL')
    this.#resolve(code)
  }

  #fail(error: unknown): void {
    if (this.#over) return
    const message = error instanceof Error ? error.message : String(error)
    this.#report.tell('failed', { message }, message, true)
    void this.#endWith(exits.internal)
  }

  /**
   * On a terminal 130 means ^C. A shell ends its loop or script only if its child died of ^C and the shell received it, too. A command that
   * is a job of its own received ^C alone; so signal everybody around us now, as the terminal would have.
   */
  #passInterruptOn(code: number): void {
    if (this.#place !== 'background' && process.stdin.isTTY && code === 130)
      process.kill(this.#hadInt ? process.pid : 0, 'SIGINT')
  }
}
