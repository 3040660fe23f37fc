/** The message of a request that had no answer. @param why may say so itself, as our own time limits do */
export function noAnswer(why: string): string {
  return why.startsWith('no answer') ? why : `no answer: ${why}`
}
