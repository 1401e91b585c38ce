/** Runs npm and pip in a sandbox of either backend, in a network namespace of their own. */
import { beforeAll, expect, it } from 'vitest'
import { HARNESSES_MS, readyHarnesses } from '../harness-image.ts'
import type { PackagesReport } from './packages-world.fixture.ts'
import { inWorld } from './world.ts'

export function installsPackages(backend: 'process' | 'docker'): void {
  let report: PackagesReport
  beforeAll(async () => {
    // That network namespace has no registry from which Craik could install npm.
    await readyHarnesses([])
    report = await inWorld('packages-world.fixture.ts', backend)
  }, HARNESSES_MS)

  it('refuses both without a grant, sends nothing, and prints the command to run', () => {
    expect(report.before.npm).toContain(`craik egress allow --preset npm --sandbox ${report.id}`)
    expect(report.before.pip).toContain(`craik egress allow --preset pypi --sandbox ${report.id}`)
    for (const output of Object.values(report.before)) expect(output).toMatch(/^failed 1:/)
    expect(report.seenBefore).toEqual([])
  })

  it('installs programs to the home and libraries to the workspace once it is granted', () => {
    const padded = '   craik'
    expect(report.after).toEqual({
      'npm i -g': `/workspace/home/.local/bin/left-pad\n${padded}`,
      'npm install': 'x',
      npx: padded.trim(),
      'pip install': `/workspace/home/.local/bin/left-pad-py\n${padded}`,
      'pip in a venv': padded.trim(),
      'where it is': 'leftpad',
    })
  })

  it('has receipts for everything, and every decision replays with the same result', () => {
    expect(report.verified).toBe(0)
  })
}
