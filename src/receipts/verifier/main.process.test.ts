import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { LogVerifier } from './log-verifier.ts'
import type { VerifierReport } from './report.ts'
import { verifyProof } from './verify-files.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const vectors = join(root, 'docs/verify/vectors')
const expected: {
  file: string
  against?: string
  outcome: VerifierReport['outcome']
  problem?: string
  seq?: number
  intact: number
}[] = JSON.parse(readFileSync(join(vectors, 'expected.json'), 'utf8'))
const vkeys = readFileSync(join(vectors, 'craik.pub'), 'utf8').trim().split('\n')

const folder = mkdtempSync(join(tmpdir(), 'craik-verify-'))
afterAll(() => rmSync(folder, { recursive: true }))
copyFileSync(join(root, 'docs/verify/craik-verify.mjs'), join(folder, 'craik-verify.mjs'))
for (const name of readdirSync(vectors)) copyFileSync(join(vectors, name), join(folder, name))

/** Runs the standalone file with plain Node, in a folder without any other part of Craik. */
function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['craik-verify.mjs', ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: {},
  })
  return { status, stdout, stderr }
}

function report(file: string, against?: string): VerifierReport {
  const text = readFileSync(join(vectors, file), 'utf8')
  if (file.endsWith('.json')) return verifyProof(text, { vkeys })
  const note = against && readFileSync(join(vectors, against), 'utf8')
  const verifier = new LogVerifier({ vkeys, ...(note && { against: note }) })
  for (const line of text.split('\n').slice(0, -1)) verifier.line(Buffer.from(line))
  return verifier.finish()
}

describe('the published vectors', () => {
  it.each(expected)(
    '$file $against is $outcome $problem $seq',
    ({ file, against, outcome, problem, seq, intact }) => {
      const found = report(file, against)
      expect(found).toMatchObject({ outcome, intact })
      expect([found.finding?.problem, found.finding?.seq]).toEqual([problem, seq])

      const { status, stdout, stderr } = run(
        file,
        '--public-key',
        'craik.pub',
        ...(against ? ['--against', against] : []),
      )
      expect(stderr).toBe('')
      expect(status).toBe({ ok: 0, tampered: 1, incomplete: 2 }[outcome])
      expect(stdout).toContain(found.finding?.detail ?? found.missing[0] ?? 'signatures ✓')
    },
  )

  it('match their source, and so does the standalone file', () => {
    for (const script of ['build-vectors.ts', 'build-verifier.ts']) {
      const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts', script), '--check'], {
        encoding: 'utf8',
      })
      expect(status, stderr).toBe(0)
    }
  })
})

describe('the standalone verifier', () => {
  it('reports what was edited and what is still intact', () => {
    expect(run('edited.jsonl', '--public-key', 'craik.pub').stdout).toBe(
      '  ✗ receipt 5 (rcpt_01M7…0A9) was edited: its bytes do not hash to leaf 5 of checkpoint 1\n' +
        '    receipts 0–4 are intact; nothing after can be trusted\n',
    )
  })

  it('is brief when the log is intact', () => {
    const lines = run('ok.jsonl', '--public-key', 'craik.pub').stdout.split('\n')
    expect(lines[0]).toBe('  20 receipts · 2026-11-15 → 2026-11-15 · 3 checkpoints')
    expect(lines[1]).toMatch(/^ {2}chain ✓ {2}signatures ✓ {2}tree ✓ {5}\d\.\d s$/)
    expect(lines[2]).toMatch(/^ {2}root \S{44} at 20 receipts$/)
  })

  it.each([
    ['without a file', []],
    ['without a public key', ['ok.jsonl']],
    ['with a flag it does not know', ['ok.jsonl', '--public-key', 'craik.pub', '--fast']],
    ['with a file that is not there', ['absent.jsonl', '--public-key', 'craik.pub']],
    ['with a public key that is none', ['ok.jsonl', '--public-key', 'ok.jsonl']],
    ['with an empty public key file', ['ok.jsonl', '--public-key', 'empty']],
    [
      'with a proof and a checkpoint held elsewhere',
      ['proof.json', '--public-key', 'craik.pub', '--against', 'newest-checkpoint.txt'],
    ],
  ])('exits with 2 and gives a reason %s', (_, args) => {
    writeFileSync(join(folder, 'empty'), '\n')
    const { status, stdout, stderr } = run(...args)
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    expect(stderr).toMatch(/^(usage|craik-verify): \S/)
    expect(stderr).not.toContain('    at ')
  })
})
