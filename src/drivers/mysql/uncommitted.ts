/** What a statement does on a connection that the application has left inside a transaction, or with autocommit off. */
import { BackendError } from '../../core/errors.js'
import type { Answer } from './client.js'

/** It holds for nobody, keeps the row locked, and is rolled back when the connection is closed: then nothing was done. */
export class UncommittedError extends BackendError {}

/** @throws UncommittedError */
export function assertCommitted({ inTransaction }: Pick<Answer, 'inTransaction'>): void {
  if (inTransaction !== true) return
  throw new UncommittedError(
    'mysql',
    'the pool gave a connection that is inside a transaction; let its connections have autocommit on, and end transactions before giving them back',
  )
}
