import { lstatSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { faultInMounted } from './mounts.ts'

const identityOf = (path: string) => {
  const { dev, ino } = lstatSync(path, { bigint: true })
  return `${dev}:${ino}`
}

describe.skipIf(process.platform !== 'linux')('what is mounted', () => {
  const root = { folder: '/', at: '/', identity: identityOf('/') }

  it('is looked at only where something is to be there', () => {
    expect(faultInMounted(0, [])).toBeUndefined()
  })

  it('is refused when it is another folder than the one that was looked at', () => {
    const other = { ...root, identity: identityOf('/proc') }
    expect(faultInMounted(process.pid, [other])).toBe('/ is not the requested folder')
  })

  it('is refused when it is no mount, whatever folder it is', () => {
    const plain = {
      folder: import.meta.dirname,
      at: import.meta.dirname,
      identity: identityOf(import.meta.dirname),
    }
    expect(faultInMounted(process.pid, [plain])).toBe(`${import.meta.dirname} is writable`)
  })
})
