import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LimitsFile } from './limits-file.ts'

let root: string
let file: string
let output: string[]

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'craik-limits-'))
  mkdirSync(join(root, 'config'))
  file = join(root, 'config', 'limits.yaml')
  output = []
})
afterEach(() => rmSync(root, { recursive: true }))

const write = (text: string) => writeFileSync(file, text, { mode: 0o600 })
const open = () =>
  LimitsFile.open({ root, config: join(root, 'config') }, (level, message) =>
    output.push(`${level}: ${message}`),
  )
const running = async (limits: LimitsFile) => (await limits.current()).admission.running

describe('the limits of all sandboxes', () => {
  it('are reloaded when the file is written, replaced, removed or created, and only then', async () => {
    const limits = await open()
    const byDefault = await running(limits)
    expect(output).toEqual([])
    write('running: 3\n')
    expect(await running(limits)).toBe(3)
    expect(await running(limits)).toBe(3)
    expect(output).toEqual(['info: reloaded config/limits.yaml'])
    // The new file has the same size and the same name.
    writeFileSync(join(root, 'other'), 'running: 4\n', { mode: 0o600 })
    renameSync(join(root, 'other'), file)
    expect(await running(limits)).toBe(4)
    rmSync(file)
    expect(await running(limits)).toBe(byDefault)
    expect(output).toHaveLength(3)
  })

  it('stay the same while the file is invalid, and the error is logged once', async () => {
    write('running: 3\nwarm: 2\n')
    const limits = await open()
    write('runing: 5\n')
    for (const _turn of [1, 2]) expect(await limits.current()).toMatchObject({ admission: { running: 3 } })
    expect(output).toEqual([
      expect.stringMatching(
        /^error: keeping the previous limits: config\/limits.yaml: unknown setting runing/,
      ),
    ])
    write('running: 5\n')
    chmodSync(file, 0o666)
    expect(await running(limits)).toBe(3)
    expect(output.at(-1)).toMatch(/is writable by other users/)
    chmodSync(file, 0o600)
    expect(await running(limits)).toBe(5)
  })

  it('fail to load if the file is invalid at the start', async () => {
    write('running: many\n')
    await expect(open()).rejects.toMatchObject({ code: 'invalid_config' })
  })
})
