export const suite = 'local'
export const name = 'bench:one'
/** The wire form of an acquire and a release, so that the floor carries as many bytes. */
const attempt = '0123456789abcdef0123456789abcdef'
export const requests: Readonly<Record<'acquire' | 'release', readonly unknown[]>> = {
  acquire: ['acquire', name, attempt, 'x', 30_000, true, 0, ''],
  release: ['release', name, attempt, 1_800_000_000_000_000],
}
export const reply: readonly unknown[] = [
  'granted',
  1_800_000_000_000_000,
  1_800_000_000_065_536,
  0.05,
  false,
]
