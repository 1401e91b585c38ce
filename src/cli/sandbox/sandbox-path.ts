/** Parses `--cwd FOLDER`: a folder in the sandbox. Only the sandbox can check more than whether it is a path at all. */
import { CraikError } from '../../errors.ts'
import { LIMITS } from '../../sidecar/protocol.ts'

export function parseFolder(text: string, flag: string): string {
  if (text === '')
    throw new CraikError('usage', `${flag} is empty`, {
      hint: `omit ${flag}, or use ${flag} . for the workspace`,
    })
  if (text.includes('\0')) throw new CraikError('usage', `${flag} contains a NUL byte`)
  const bytes = Buffer.byteLength(text)
  if (bytes > LIMITS.pathBytes)
    throw new CraikError('too_large', `${flag} is too long: ${bytes.toLocaleString('en')} bytes`, {
      hint: `use a path of at most ${LIMITS.pathBytes.toLocaleString('en')} bytes`,
    })
  return text
}
