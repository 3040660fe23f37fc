/**
 * The supervisor: the process the user started (for its messages to and from the lock process see `messages.ts`). It does everything about the command
 * except decide when it must end: terminal, signals, exit code.
 *
 * It is also the deadman timer of the lock process: if the lock process is killed or stopped, the supervisor ends the command before the last proven moment of the lease.
 *
 * Long because what the supervisor does with signals, terminal and lock process belongs together: every message and every signal depends on the same
 * few facts about one run.
 */
import type { ChildProcess } from 'node:child_process'
import { exits } from '../exit.js'
import { failureOf, toFailure } from '../failure.js'
import { plain } from '../print.js'
import { inForeground } from '../tty.js'
import {
  type Child,
  EarlyExitError,
  type Ending,
  findJobControl,
  type JobControl,
  lineCount,
  lostNames,
  startChild,
} from './child.js'
import { checkCommand } from './command.js'
import { createDeadmanTimer, type DeadmanTimer } from './deadman-timer.js'
import { linesFor } from './descriptors.js'
import {
  exitCodeAfter,
  type Run,
  reportBusy,
  reportDone,
  reportDoubtful,
  reportFailure,
  reportLeftovers,
  reportStopping,
  reportTakeOver,
  startFailure,
} from './exit-report.js'
import { signalGroup } from './group.js'
import type { RunLimits, RunRequest, ToLockProcess, ToSupervisor } from './messages.js'
import { deadmanAt } from './policy.js'
import type { Report } from './report.js'
import { endsWait, type ForwardedSignal, forwardSignals, stopSelf } from './signals.js'
import { type GroupWatcher, leave, startHelpers, startLockProcess } from './spawn-helpers.js'
import { lockVariables } from './variables.js'

interface Plan {
  readonly claim: RunRequest
  readonly env: NodeJS.ProcessEnv
  readonly conflictExitCode: number
}

export interface CommandPlan extends Plan {
  readonly command: readonly string[]
}

/** What the lock is held for: a command started behind a gate, or the owner of a `hold`, which was running before. */
export interface SupervisorPlan extends Plan {
  /** What the terminal allows now: `fg` and `bg` change it. */
  readonly findJobControl: () => JobControl
  start(tokens: readonly number[], jobControl: JobControl, onStopped: () => void): Promise<Child>
  /** The command has ended, and why it was stopped, if it was, has been reported. */
  onJudged?(): void
}

/** @returns the exit code. @throws CliError before anything is locked. */
export async function runCommand(plan: CommandPlan, report: Report): Promise<number> {
  const { claim, command, env } = plan
  checkCommand(command, env)
  linesFor(lineCount(findJobControl()))
  reportLostNames(report, env)
  const start: SupervisorPlan['start'] = (tokens, jobControl, onStopped) =>
    startChild(command, { ...env, ...lockVariables(claim.names, tokens) }, jobControl, onStopped)
  return await new Supervisor({ ...plan, findJobControl, start }, report).run()
}

/** @returns the exit code. */
export async function holdFor(plan: SupervisorPlan, report: Report): Promise<number> {
  return await new Supervisor(plan, report).run()
}

function reportLostNames(report: Report, env: NodeJS.ProcessEnv): void {
  const names = lostNames(env)
  if (names.length === 0) return
  const text = `/bin/sh hands no variables with such names on, and there is no bash: the command will not see ${names.map(plain).join(', ')}`
  report.write('variables', { names }, text)
}

class Supervisor {
  readonly #plan: SupervisorPlan
  readonly #report: Report
  readonly #watcher: GroupWatcher | undefined
  /** Of the current claim. */
  #lockProcess: ChildProcess
  readonly #result: Promise<number>
  #resolve: (code: number) => void = () => undefined
  #child: Child | undefined
  #ending: Ending | undefined
  /** Nothing has been granted yet. A single attempt does not wait. */
  #isWaiting: boolean
  /** The gate has been opened. */
  #running = false
  /** The signal that ended the wait. */
  #cancelled: ForwardedSignal | undefined
  /** The exit code if the command could not be started. */
  #startFailureCode: number | undefined
  /** This process received INT; if it came from the terminal, the processes around it received it, too. */
  #receivedInterrupt = false
  #jobControl: JobControl
  readonly #deadman: DeadmanTimer
  #heldUntil = Number.POSITIVE_INFINITY
  /** The requested terms, until the lock process knows what the lease can keep. */
  #terms: RunLimits
  /** The lock process has reported that it is ending the command. */
  #stopping = false
  #hasFinished = false
  /** Was the lease held until the command ended? Undefined: the lock process has not reported it. */
  #held: boolean | undefined

  constructor(plan: SupervisorPlan, report: Report) {
    this.#plan = plan
    this.#jobControl = plan.findJobControl()
    this.#terms = plan.claim
    this.#isWaiting = plan.claim.wait > 0
    this.#report = report
    this.#result = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#deadman = createDeadmanTimer(() => void this.#takeOver('the lock process does not respond'))
    const { watcher, lockProcess } = startHelpers()
    this.#watcher = watcher
    this.#lockProcess = lockProcess
  }

  async run(): Promise<number> {
    const restore = forwardSignals((signal) => this.#onSignal(signal))
    this.#claim()
    const code = await this.#result
    this.#deadman.stop()
    this.#report.waited()
    this.#watcher?.dismiss()
    leave(this.#lockProcess)
    restore()
    this.#passInterruptOn(code)
    return code
  }

  #claim(): void {
    this.#lockProcess.on(
      'message',
      (message: ToSupervisor) => void this.#onMessage(message).catch((error) => this.#fail(error)),
    )
    this.#lockProcess.once('error', (error) => this.#fail(error))
    // Not 'exit', which may come before the lock process's last messages.
    this.#lockProcess.once('disconnect', () => void this.#takeOver('the lock process was killed'))
    this.#send(this.#plan.claim)
  }

  #send(message: ToLockProcess): void {
    // A lock process's end is noticed by its exit.
    if (this.#lockProcess.connected) this.#lockProcess.send(message, () => undefined)
  }

  async #onMessage(message: ToSupervisor): Promise<void> {
    if (this.#hasFinished) return
    switch (message.type) {
      case 'waiting':
        return this.#report.waiting(message)
      case 'granted':
        return await this.#granted(message.tokens)
      case 'busy':
        this.#report.waited()
        reportBusy(this.#report, message, this.#plan.claim, this.#plan.env)
        return this.#finish(this.#plan.conflictExitCode)
      case 'failed':
        reportFailure(this.#report, message.failure)
        return await this.#endWith(message.failure.exitCode)
      case 'go':
        return this.#onGo(message)
      case 'proof':
        return this.#onProof(message.heldUntil)
      case 'doubtful':
        return reportDoubtful(this.#report, message, this.#plan.claim)
      case 'stopping':
        this.#stopping = true
        this.#onProof(this.#heldUntil)
        return reportStopping(this.#report, message, this.#plan.claim)
      case 'judged':
        // No command is left to end in the lock process's place.
        this.#deadman.stop()
        this.#held = message.held
        return this.#plan.onJudged?.()
      case 'signal':
        return this.#onSignal(message.signal as ForwardedSignal)
      case 'done':
        return this.#onDone(message)
    }
  }

  async #granted(tokens: readonly number[]): Promise<void> {
    this.#isWaiting = false
    this.#report.waited()
    if (this.#cancelled !== undefined) return
    this.#jobControl = this.#plan.findJobControl()
    const start = this.#plan.start(tokens, this.#jobControl, () => this.#stopped())
    const child = await start.catch((error: unknown) => {
      // ^C may end the shell that is about to start the command; it may or may not have reached us, too.
      if (error instanceof EarlyExitError && error.ending.code === 130 && this.#cancelled === undefined)
        this.#cancel('SIGINT')
      if (this.#cancelled === undefined) this.#notStarted(error)
    })
    if (child === undefined) return
    this.#child = child
    child.ended.then(
      (ending) => this.#ended(ending),
      (error) => this.#fail(error),
    )
    if (this.#cancelled !== undefined || this.#hasFinished) return child.abandon()
    this.#watcher?.watch(child.group)
    this.#send({ type: 'started', group: child.group })
    this.#report.write(
      'granted',
      { ...(tokens.length === 1 ? { token: tokens[0] } : { tokens }), group: child.group },
      undefined,
    )
  }

  /** Nothing is running that needs the lock: the lock process releases it. */
  #notStarted(error: unknown): void {
    const { code, message } = startFailure(error)
    reportFailure(this.#report, failureOf(message, code))
    this.#startFailureCode = code
    this.#send({ type: 'cancel' })
  }

  #onProof(heldUntil: number): void {
    this.#heldUntil = heldUntil
    if (this.#held !== undefined) return
    this.#deadman.arm(deadmanAt(this.#terms, heldUntil, this.#stopping))
  }

  #onGo({ heldUntil, terms }: Extract<ToSupervisor, { type: 'go' }>): void {
    if (this.#cancelled !== undefined || this.#child === undefined) return
    this.#running = true
    this.#terms = terms
    this.#onProof(heldUntil)
    this.#child.open()
  }

  #ended(ending: Ending): void {
    this.#ending = ending
    this.#send({ type: 'ended' })
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

  #onDone(message: Extract<ToSupervisor, { type: 'done' }>): void {
    const run = this.#run()
    if (message.stopped === undefined) reportLeftovers(this.#report, this.#child)
    reportDone(this.#report, message, run)
    this.#finish(this.#startFailureCode ?? exitCodeAfter(message, run))
  }

  #onSignal(signal: ForwardedSignal): void {
    if (signal === 'SIGINT') this.#receivedInterrupt = true
    if (!this.#running || this.#ending !== undefined) return this.#onIdleSignal(signal)
    // The shell continues a stopped job, in its own time.
    if (signal === 'SIGCONT' && this.#jobControl === 'job') return
    const group = this.#child?.group ?? 0
    if (signal === 'SIGTSTP' && this.#jobControl !== 'job') {
      // The command's session has no terminal, so the kernel would ignore TSTP.
      signalGroup(group, 'SIGSTOP')
      return stopSelf(() => signalGroup(group, 'SIGCONT'))
    }
    signalGroup(group, signal)
  }

  /** A signal before the command runs ends the wait; after the command has ended, it ends the rest of --min-hold. */
  #onIdleSignal(signal: ForwardedSignal): void {
    if (signal === 'SIGTSTP' && this.#isWaiting) return this.#suspendWait()
    if (signal === 'SIGTSTP') return stopSelf(() => undefined)
    if (endsWait(signal)) this.#cancel(signal)
  }

  /** A lock must not be granted to a stopped process: the claim ends, and what was granted meanwhile is released. Continued, it claims anew. */
  #suspendWait(): void {
    this.#report.waited()
    const before = this.#lockProcess
    this.#send({ type: 'cancel' })
    before.removeAllListeners('message').removeAllListeners('disconnect')
    stopSelf(() => {
      this.#lockProcess = startLockProcess(this.#watcher)
      leave(before)
      this.#claim()
      // A signal that ends the wait may have come first.
      if (this.#cancelled !== undefined) this.#send({ type: 'cancel' })
    })
  }

  #cancel(signal: ForwardedSignal): void {
    if (this.#ending === undefined) this.#cancelled ??= signal
    this.#report.waited()
    this.#child?.abandon()
    this.#send({ type: 'cancel' })
  }

  /** ^Z stopped the job: stop this process, too, so that the shell takes over; then continue as the shell wants, in foreground or background. */
  #stopped(): void {
    stopSelf(() => this.#child?.resume(inForeground() ? 'fg' : 'bg'))
  }

  /** The lock is free or soon will be, and no other process ends the command. */
  async #takeOver(why: string): Promise<void> {
    if (this.#hasFinished) return
    await this.#endWith(reportTakeOver(this.#report, why, this.#run()))
  }

  #finish(code: number): void {
    this.#hasFinished = true
    this.#resolve(code)
  }

  /** The result is decided: the lock process and the gate end next, which needs no report. */
  async #endWith(code: number): Promise<void> {
    this.#hasFinished = true
    this.#child?.abandon()
    await this.#child?.end()
    // A stopped lock process would hold the lock for ever.
    this.#lockProcess.kill('SIGKILL')
    this.#resolve(code)
  }

  #fail(error: unknown): void {
    if (this.#hasFinished) return
    reportFailure(this.#report, toFailure(error, exits.internal))
    void this.#endWith(exits.internal)
  }

  /**
   * On a terminal 130 means ^C. A shell ends its loop or script only if its child died of ^C and the shell received it, too. A command that
   * is a job of its own received ^C alone; so signal everybody around us now, as the terminal would have.
   */
  #passInterruptOn(code: number): void {
    if (this.#jobControl !== 'background' && process.stdin.isTTY && code === 130)
      process.kill(this.#receivedInterrupt ? process.pid : 0, 'SIGINT')
  }
}
