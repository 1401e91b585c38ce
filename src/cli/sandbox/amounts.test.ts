import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LIMIT_BOUNDS } from '../../sandboxes/limit-bounds.ts'
import { formatBytes, formatBytesOptionUp, parseBytes, parseCount, parseCpus, parsePorts } from './amounts.ts'

describe('sizes', () => {
  it.each([
    [1, '0.1k'],
    [1024, '1k'],
    [4096 + 1, '4.1k'],
    [2 ** 20, '1m'],
    [1.21 * 2 ** 30, '1.3g'],
    [99.1 * 2 ** 30, '100g'],
  ])('of %i bytes fit into the option value %s', (bytes, text) => {
    expect(formatBytesOptionUp(bytes)).toBe(text)
  })

  it('in a hint are always enough, and at most slightly more', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 50 }), (bytes) => {
        const allowed = parseBytes(formatBytesOptionUp(bytes), '--max-copy')
        expect(allowed).toBeGreaterThanOrEqual(bytes)
        expect(allowed).toBeLessThanOrEqual(Math.max(bytes * 1.11, 103))
      }),
    )
  })

  it.each([
    ['512m', 512 * 2 ** 20],
    ['2g', 2 * 2 ** 30],
    ['2G', 2 * 2 ** 30],
    ['2GiB', 2 * 2 ** 30],
    ['1.5g', 1.5 * 2 ** 30],
    ['64k', 64 * 1024],
    ['1t', 2 ** 40],
  ])('%s is %i bytes', (text, bytes) => {
    expect(parseBytes(text, '--memory')).toBe(bytes)
  })

  it.each([
    '',
    '2',
    '0g',
    '0.0001k',
    '-1g',
    '1e9g',
    '2 g',
    '2gg',
    '1.5',
    'g',
    '999999t',
    '٢g',
    '1,5g',
    'Infinityg',
  ])('refuses %j, with the form of a size in the hint', (text) => {
    expect(() => parseBytes(text, '--memory')).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringContaining('512m') }),
    )
  })

  it.each([
    ['1k', 'too small'],
    ['127.9m', 'too small'],
    ['1000t', 'too large'],
  ])('outside the bounds of a limit are refused: %s is %s', (text, why) => {
    expect(() => parseBytes(text, '--memory', LIMIT_BOUNDS.memoryBytes)).toThrow(
      expect.objectContaining({
        code: 'usage',
        message: expect.stringContaining(why),
        hint: expect.stringContaining('from 128m to 64t'),
      }),
    )
  })

  it('are whole numbers of bytes for any input', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1000 }),
        fc.integer({ min: 0, max: 999 }),
        fc.constantFrom('k', 'm', 'g'),
        (whole, part, unit) => {
          const bytes = parseBytes(`${whole}.${part}${unit}`, '--disk')
          expect(Number.isSafeInteger(bytes)).toBe(true)
        },
      ),
    )
  })

  it.each([
    [0, '0 B'],
    [1023, '1,023 B'],
    [1024, '1 KB'],
    [1536, '1.5 KB'],
    [2 ** 20 - 1, '1 MB'],
    [212 * 2 ** 20, '212 MB'],
    [2 ** 50, '1,024 TB'],
  ])('%i is shown as %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text)
  })
})

describe('cores, counts and ports', () => {
  it('reads cores in thousandths', () => {
    expect(parseCpus('1.5', '--cpus', LIMIT_BOUNDS.cpuMillis)).toBe(1500)
    expect(parseCpus('0.01', '--cpus', LIMIT_BOUNDS.cpuMillis)).toBe(10)
    for (const text of ['0', '0.0001', '-1', '1.5x', '99999', '', '1e3'])
      expect(() => parseCpus(text, '--cpus', LIMIT_BOUNDS.cpuMillis)).toThrow(
        expect.objectContaining({ code: 'usage' }),
      )
  })

  it('reads counts up to their limit', () => {
    expect(parseCount('512', '--pids', { least: 16, most: 1000 })).toBe(512)
    for (const text of ['0', '1001', '-1', '1.5', '', '010', '99999999999'])
      expect(() => parseCount(text, '--pids', { least: 16, most: 1000 })).toThrow(
        expect.objectContaining({ code: 'usage' }),
      )
  })

  it('reads a port in the sandbox, and one on the host', () => {
    expect(parsePorts('8080')).toEqual({ inside: 8080, host: 0 })
    expect(parsePorts('8080:3000')).toEqual({ inside: 8080, host: 3000 })
    for (const text of ['0', '65536', '80:65536', ':80', '80:', 'x', '1:2:3', '-80'])
      expect(() => parsePorts(text)).toThrow(expect.objectContaining({ code: 'usage' }))
  })
})
