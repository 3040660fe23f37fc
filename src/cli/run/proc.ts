/** Reading what Linux shows of a process. */

const gone = ['ENOENT', 'ESRCH']

/**
 * @param hidden codes that mean the same to the caller as no process
 * @returns undefined: there is no such process (it may end while it is read)
 * @throws as fs does on every other error, like EMFILE: whether the process lives is then unknown, and it must not count as ended
 */
export function unlessGone<T>(read: () => T, hidden: readonly string[] = []): T | undefined {
  try {
    return read()
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (gone.includes(code) || hidden.includes(code)) return undefined
    throw error
  }
}
