import { lstatSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { faultInMounted } from './mounts.ts'

const identityOf = (path: string) => {
  const { dev, ino } = lstatSync(path, { bigint: true })
  return `${dev}:${ino}`
}

describe.skipIf(process.platform !== 'linux')('mounted folders', () => {
  const root = { folder: '/', at: '/', identity: identityOf('/') }

  it('are inspected only when mounts are expected', () => {
    expect(faultInMounted(0, [])).toBeUndefined()
  })

  it('are refused when the folder differs from the checked one', () => {
    const other = { ...root, identity: identityOf('/proc') }
    expect(faultInMounted(process.pid, [other])).toBe('/ is not the requested folder')
  })

  it('are refused when the path is not a mount, whatever folder it is', () => {
    const plain = {
      folder: import.meta.dirname,
      at: import.meta.dirname,
      identity: identityOf(import.meta.dirname),
    }
    expect(faultInMounted(process.pid, [plain])).toBe(`${import.meta.dirname} is writable`)
  })
})
