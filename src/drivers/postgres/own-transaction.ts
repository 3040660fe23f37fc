/**
 * Statements over a postgres.js instance, whose connections the application uses too: it may have left one inside a transaction
 * (`reserve()`, `begin`, `release()`). No other client sees a grant made there, and it may be undone. So each statement must find out whether
 * it runs in a transaction of its own. It cannot tell that by itself: Parse, Bind and Execute each set the time of the statement.
 *
 * A guard goes before it, on the same connection and in the same packet: a setting that lasts until the end of the transaction. If the
 * guard was a transaction of its own, the setting is gone when the statement arrives; inside an older transaction the statement finds it,
 * and does nothing. The older transaction is left as it is. A pooler changes nothing: it does not change servers inside a transaction.
 *
 * It may also have left another `client_encoding`, while postgres.js always sends UTF-8: there the statement does nothing, either.
 *
 * `sql.reserve()` would give such a connection, too, but versions before 3.4 lack it, 3.4.5 throws an error that cannot be caught when it cannot
 * connect, and later ones do so when a reserved connection ends. So the statement is sent when postgres.js says on which connection it
 * has just sent the guard (`onexecute`, with which `sql.begin` does the same in every version).
 */
import type { PostgresJsQuery } from './client.js'

type Query = PostgresJsQuery | PromiseLike<unknown>
/** The part of `sql.unsafe` that is needed here. */
export type Unsafe = (text: string, values?: never[], options?: object) => Query

const guardText = `select pg_catalog.set_config('holdfast.inside', 'yes', true)`
const isInside = `pg_catalog.current_setting('holdfast.inside', true) operator(pg_catalog.=) 'yes'`
/** The bytes of the parameters would be read as other characters: the name would be that of another lock. */
const isMisread = `pg_catalog.current_setting('client_encoding') operator(pg_catalog.<>) 'UTF8'`
/** No answers of ours are like these: they are JSON, or a number before it. */
const refused = 'inside a transaction'
const misread = 'client_encoding is not UTF8'
/** The SQLSTATEs of the refusals. */
const codes: Readonly<Record<string, string>> = { [refused]: '25001', [misread]: '22021' }
/** Guards to send before a client is believed to have no `onexecute`; it is not called while the socket takes no more data. */
const maxGuards = 10

/** @returns the query, which does nothing inside a transaction that has begun before it, nor where its parameters are misread */
export const unlessInside = (text: string): string =>
  `select case when ${isInside} then '${refused}' when ${isMisread} then '${misread}' else (${text})::pg_catalog.text end as answer`

/** As `unlessInside`, for several statements; fails with an SQLSTATE. */
export const scriptUnlessInside = (text: string): string =>
  `do $$ begin if ${isInside} then raise exception '${refused}' using errcode = '${codes[refused]}'; end if; end $$;\n${text}`

/** @returns undefined: the query was executed */
export function toRefusal(answer: string): Error | undefined {
  const code = codes[answer]
  return code === undefined ? undefined : Object.assign(new Error(answer), { code })
}

/** Whether a client calls `onexecute`, once that is known. */
const calls = new WeakMap<Unsafe, boolean>()

/**
 * Sends what `make` returns right behind a guard. Over a wrapped instance, whose queries are sent as soon as they are made, and over one
 * without `onexecute`, that is certain only if the instance has a single connection.
 */
export async function behindGuard(unsafe: Unsafe, make: () => Query): Promise<unknown> {
  for (let guards = 1; ; guards++) {
    let answer: Promise<unknown> | undefined
    let lazy = true
    const onexecute = (connection: { execute(query: Query): unknown }) => {
      if (!lazy) return true
      calls.set(unsafe, true)
      const query = make() as Query & { executed?: boolean }
      const sentAlready = query.executed !== false
      // Else `then()` would send it once more, on any connection.
      query.executed = true
      answer = Promise.resolve(query)
      answer.catch(() => undefined)
      if (sentAlready) return true
      connection.execute(query)
      // As for any statement whose parameters are not described yet: sends no others on this connection before the reply.
      return false
    }
    const guard = unsafe(guardText, [], { onexecute })
    lazy = guard instanceof Promise && 'raw' in guard && calls.get(unsafe) !== false
    const sent = Promise.resolve(guard).then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
    if (!lazy) return make()
    const failed = await sent
    if (answer !== undefined) return answer
    if (failed !== undefined) throw failed.error
    if (guards < maxGuards) continue
    if (calls.get(unsafe) === true) throw new Error('the connection to the server takes no more data')
    calls.set(unsafe, false)
    return make()
  }
}
