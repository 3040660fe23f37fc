/** Splits chunks into whole JSON lines. */
export function lines<T>(onMessage: (message: T) => void): (chunk: string) => void {
  let rest = ''
  return (chunk) => {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() ?? ''
    for (const part of parts) onMessage(JSON.parse(part) as T)
  }
}
