/** The statements that each connection has not answered yet, and whether the oldest of them holds up those sent behind it. */
import type { Clock } from '../../core/clock.js'
import type { Connection } from './client.js'

/** A statement unanswered for this many ms holds up the statements sent behind it. */
const stuckAfter = 50

interface Statement {
  /** Clock reading. */
  readonly sent: number
  /** Settles with the answer; never rejects. */
  readonly over: Promise<void>
}

export class UnansweredStatements {
  readonly #clock: Clock
  /** By connection, oldest first. */
  readonly #statements = new WeakMap<Connection, Set<Statement>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(connection: Connection, sent: number, answer: Promise<unknown>): void {
    let all = this.#statements.get(connection)
    if (all === undefined) {
      all = new Set()
      this.#statements.set(connection, all)
    }
    const statements = all
    const done = () => void statements.delete(one)
    const one: Statement = { sent, over: answer.then(done, done) }
    statements.add(one)
  }

  oldest(connection: Connection): Statement | undefined {
    const [first] = this.#statements.get(connection) ?? []
    return first
  }

  isStuck(connection: Connection): boolean {
    const first = this.oldest(connection)
    return first !== undefined && this.#clock.now() - first.sent > stuckAfter
  }

  /** The connection with the fewest, but none that is stuck if another is not. `first` wins a tie. */
  least(first: Connection, others: Iterable<Connection>): Connection {
    let [found, stuck] = [first, this.isStuck(first)]
    for (const connection of others) {
      const other = this.isStuck(connection)
      if (other === stuck ? connection.busy < found.busy : stuck) [found, stuck] = [connection, other]
    }
    return found
  }
}
