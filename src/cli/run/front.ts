/**
 * Long because what the front does with signals, terminal and keeper hangs together.
 *
 * The front: the process the user started (see `messages.ts` for what it and the keeper say). Everything about the command but the
 * decision when it must end is here: terminal, signals, exit code.
 *
 * It is also the keeper's understudy: if the keeper is killed or stopped, the command is ended from here before the last proven
 * moment of the lease.
 *
 * Longer than 200 lines, because every message and every signal decides by the same few facts about one run.
 */
import type { ChildProcess } from 'node:child_process'
import { exits } from '../exit.js'
import { inForeground } from '../tty.js'
import { startKeeper, startWatcher, type Watcher } from './beside.js'
import { type Child, EndedEarly, type Ending, type Place, placeOfCommand, startChild } from './child.js'
import { checkCommand } from './command.js'
import { endGroup, signalGroup } from './group.js'
import type { Claim, ToFront, ToKeeper } from './messages.js'
import {
  exitCodeAfter,
  type Run,
  tellBusy,
  tellDone,
  tellDoubtful,
  tellLeftovers,
  tellStopping,
  tellTakeOver,
} from './outcome.js'
import { understudyAt } from './policy.js'
import type { Report } from './report.js'
import { endsWait, stopSelf, type Taken, takeSignals } from './signals.js'
import { type Understudy, understudy } from './understudy.js'

export interface Plan {
  readonly claim: Claim
  readonly command: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly conflictExitCode: number
}

/** @returns the exit code. @throws CliError before anything is locked. */
export async function runCommand(plan: Plan, report: Report): Promise<number> {
  checkCommand(plan.command, plan.env)
  return await new Front(plan, report).run()
}

class Front {
  readonly #plan: Plan
  readonly #report: Report
  readonly #watcher: Watcher | undefined
  readonly #keeper: ChildProcess
  readonly #result: Promise<number>
  #resolve: (code: number) => void = () => undefined
  #child: Child | undefined
  #ending: Ending | undefined
  /** The gate was opened. */
  #running = false
  /** The signal that ended the wait. */
  #cancelled: Taken | undefined
  /** INT came to this process, and if from the terminal, to those around it, too. */
  #hadInt = false
  readonly #place: Place = placeOfCommand()
  readonly #understudy: Understudy
  #heldUntil = Number.POSITIVE_INFINITY
  /** The keeper has said that it ends the command. */
  #stopping = false
  #over = false

  constructor(plan: Plan, report: Report) {
    this.#plan = plan
    this.#report = report
    this.#result = new Promise((resolve) => {
      this.#resolve = resolve
    })
    this.#understudy = understudy(() => void this.#takeOver('the keeper of the lock does not react'))
    this.#watcher = startWatcher()
    this.#keeper = startKeeper(this.#watcher)
  }

  async run(): Promise<number> {
    const restore = takeSignals((signal) => this.#take(signal))
    this.#keeper.on(
      'message',
      (message: ToFront) => void this.#hear(message).catch((error) => this.#fail(error)),
    )
    this.#keeper.once('error', (error) => this.#fail(error))
    // Not 'exit', which may come before its last words.
    this.#keeper.once('disconnect', () => void this.#takeOver('the keeper of the lock was killed'))
    this.#tell(this.#plan.claim)
    const code = await this.#result
    this.#over = true
    this.#understudy.stop()
    this.#report.waited()
    this.#watcher?.dismiss()
    if (this.#keeper.connected) this.#keeper.disconnect()
    // It may have a broker's work to hand over.
    this.#keeper.unref()
    restore()
    this.#passInterruptOn(code)
    return code
  }

  #tell(message: ToKeeper): void {
    // A keeper that is gone is noticed by its exit.
    if (this.#keeper.connected) this.#keeper.send(message, () => undefined)
  }

  async #hear(message: ToFront): Promise<void> {
    if (this.#over) return
    switch (message.type) {
      case 'waiting':
        return this.#report.waiting(message.blocked, message.waiters, message.trouble)
      case 'granted':
        return await this.#granted(message.token)
      case 'busy':
        this.#report.waited()
        tellBusy(this.#report, message, this.#plan.claim.name, this.#plan.env)
        return this.#resolve(this.#plan.conflictExitCode)
      case 'failed':
        this.#report.tell('failed', { message: message.message }, message.message, true)
        return await this.#endWith(message.exitCode)
      case 'go':
        return this.#go(message.heldUntil)
      case 'proof':
        return this.#proven(message.heldUntil)
      case 'doubtful':
        return tellDoubtful(this.#report, message)
      case 'stopping':
        this.#stopping = true
        this.#proven(this.#heldUntil)
        return tellStopping(this.#report, message, this.#plan.claim)
      case 'signal':
        return this.#take(message.signal as Taken)
      case 'done':
        return this.#done(message)
    }
  }

  async #granted(token: number): Promise<void> {
    this.#report.waited()
    if (this.#cancelled !== undefined) return
    const { command, claim, env } = this.#plan
    const childEnv = { ...env, HOLDFAST_NAME: claim.name, HOLDFAST_TOKEN: `${token}` }
    const start = startChild(command, childEnv, this.#place, () => this.#stopped())
    const child = await start.catch((error: unknown) => {
      // ^C may end the shell that is about to start the command, and may or may not have reached us, too.
      if (error instanceof EndedEarly && error.ending.code === 130 && this.#cancelled === undefined)
        this.#cancel('SIGINT')
      if (this.#cancelled === undefined) throw error
    })
    if (child === undefined) return
    this.#child = child
    child.ended.then(
      (ending) => this.#ended(ending),
      (error) => this.#fail(error),
    )
    if (this.#cancelled !== undefined) return child.abandon()
    this.#watcher?.watch(child.group)
    this.#tell({ type: 'started', group: child.group })
    this.#report.tell('granted', { token, group: child.group }, undefined)
  }

  #proven(heldUntil: number): void {
    this.#heldUntil = heldUntil
    this.#understudy.expect(understudyAt(this.#plan.claim, heldUntil, this.#stopping))
  }

  #go(heldUntil: number): void {
    if (this.#cancelled !== undefined || this.#child === undefined) return
    this.#running = true
    this.#proven(heldUntil)
    this.#child.open()
  }

  #ended(ending: Ending): void {
    this.#ending = ending
    this.#tell({ type: 'ended' })
  }

  #run(): Run {
    return { ran: this.#running, ending: this.#ending, cancelled: this.#cancelled }
  }

  #done(message: Extract<ToFront, { type: 'done' }>): void {
    const run = this.#run()
    if (message.stopped === undefined) tellLeftovers(this.#report, this.#child)
    tellDone(this.#report, message, run, this.#plan.claim.ttl)
    this.#resolve(exitCodeAfter(message, run))
  }

  #take(signal: Taken): void {
    if (signal === 'SIGINT') this.#hadInt = true
    if (!this.#running || this.#ending !== undefined) return this.#takeIdle(signal)
    // A stopped job is continued by its shell, in its own time.
    if (signal === 'SIGCONT' && this.#place === 'job') return
    const group = this.#child?.group ?? 0
    if (signal === 'SIGTSTP' && this.#place !== 'job') {
      // Its session has no terminal, so the kernel would ignore TSTP.
      signalGroup(group, 'SIGSTOP')
      return stopSelf(() => signalGroup(group, 'SIGCONT'))
    }
    signalGroup(group, signal)
  }

  /** Before the command runs a signal ends the wait; after it has ended, the rest of --min-hold. */
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

  /** ^Z stopped the job: stop, too, so that the shell takes over; go on where the shell wants it. */
  #stopped(): void {
    stopSelf(() => this.#child?.resume(inForeground() ? 'fg' : 'bg'))
  }

  /** The lock is free, or will be soon, and nobody else ends the command. */
  async #takeOver(why: string): Promise<void> {
    if (this.#over) return
    this.#over = true
    await this.#endWith(tellTakeOver(this.#report, why, this.#run()))
  }

  async #endWith(code: number): Promise<void> {
    const child = this.#child
    if (child !== undefined) {
      child.abandon()
      await endGroup(child.group)
    }
    // One that is stopped would hold the lock for ever.
    this.#keeper.kill('SIGKILL')
    this.#resolve(code)
  }

  #fail(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    this.#report.tell('failed', { message }, message, true)
    void this.#endWith(exits.internal)
  }

  /**
   * On a terminal 130 means ^C, and a shell ends its loop or script only if what it waits for died of it and it was told, too. A
   * command that is a job of its own had ^C to itself; then everybody around us is told now, as the terminal would have.
   */
  #passInterruptOn(code: number): void {
    if (this.#place !== 'background' && process.stdin.isTTY && code === 130)
      process.kill(this.#hadInt ? process.pid : 0, 'SIGINT')
  }
}
