import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { hostPageBytes, parsePageBytes } from './page-size.ts'

function auxv(...entries: readonly (readonly [type: number, value: number])[]): Buffer {
  const buffer = Buffer.alloc(16 * entries.length)
  for (const [i, [type, value]] of entries.entries()) {
    buffer.writeBigUInt64LE(BigInt(type), 16 * i)
    buffer.writeBigUInt64LE(BigInt(value), 16 * i + 8)
  }
  return buffer
}

describe('the page size', () => {
  it.each([4096, 16_384, 65_536])('is read from what the kernel told this process: %i', (bytes) => {
    expect(parsePageBytes(auxv([33, 6], [16, 7], [6, bytes], [17, 100], [0, 0]))).toBe(bytes)
  })

  it('is the usual one when the kernel told nothing', () => {
    expect(parsePageBytes(auxv([33, 6], [0, 0]))).toBe(4096)
    expect(parsePageBytes(Buffer.alloc(0))).toBe(4096)
  })

  it('is that of this machine', () => {
    const [, kilobytes] = /^KernelPageSize: +(\d+) kB$/m.exec(readFileSync('/proc/self/smaps', 'utf8'))!
    expect(hostPageBytes()).toBe(Number(kilobytes) * 1024)
  })
})
