import { describe, expect, test } from 'vitest'
import { parseTyped } from '../../gateway/egress/rules.ts'
import { addRule } from '../../gateway/egress/tokens.ts'
import { ADA_USER, hello, LifecycleStore } from '../../sandboxes/lifecycle/lifecycle.fixture.ts'
import { describeVerification, verificationExitCode, verificationJson } from './verification.ts'
import { checkSandboxRows } from './verify-sandboxes.ts'

const OTHER_KEY = `'0123456789abcdef:' || substr(seal, 18)`

describe('the rows of sandboxes', () => {
  async function scene() {
    const fixture = new LifecycleStore()
    const { id } = await fixture.sandbox()
    const job = hello()
    await fixture.begin(id, job)
    const { store } = fixture
    const check = () => store.read((tables) => checkSandboxRows(tables, store.home))
    return { store, database: store.database, id, jobId: job.job!.id, check }
  }

  test('pass the check if Craik wrote them', async () => {
    const { check } = await scene()
    expect(await check()).toEqual({ checked: 2, damaged: [] })
  })

  test.each([`document = json_set(document, '$.isolation', 'none')`, `seal = ''`, `seal = ${OTHER_KEY}`])(
    'fail the check after this edit of a sandbox: %s',
    async (edit) => {
      const { database, id, check } = await scene()
      database.exec(`UPDATE sandboxes SET ${edit}`)
      const sandboxRows = await check()
      expect(sandboxRows.damaged).toMatchObject([{ id }])
      const report = { outcome: 'ok' as const, receipts: 9, checkpoints: 1, intact: 9, missing: [] }
      const verification = { report, sandboxRows, elapsedMs: 1 }
      expect(verificationExitCode(verification)).toBe(1)
      expect(verificationJson(verification)).toMatchObject({
        outcome: 'tampered',
        sandbox_rows: { damaged: [{ id }] },
      })
      expect(describeVerification(verification)).toContain(
        `  ✗ the record of sandbox ${id} was changed outside Craik\n`,
      )
    },
  )

  test.each([`document = '{}'`, `owner = 'not json'`, `begin_id = 'rcpt_other'`, `seal = ${OTHER_KEY}`])(
    'fail the check after this edit of a job: %s',
    async (edit) => {
      const { database, id, jobId, check } = await scene()
      database.exec(`UPDATE sandbox_jobs SET ${edit}`)
      const detail = `the record of job ${jobId} of sandbox ${id} was changed outside Craik`
      expect((await check()).damaged).toEqual([{ id: jobId, detail }])
    },
  )

  test('fail the check after an edit of an egress rule', async () => {
    const { store, database, id, check } = await scene()
    const terms = { ...parseTyped('a.example.com'), operator: ADA_USER, approvedBy: ADA_USER, preset: null }
    const { rule } = await store.write(addRule, { ...terms, sandboxId: id })
    expect((await check()).damaged).toEqual([])
    database.exec(`UPDATE egress_rules SET document = replace(document, 'a.example', 'b.example')`)
    expect((await check()).damaged).toEqual([
      { id: rule.id, detail: `egress rule ${rule.id} was changed outside Craik` },
    ])
  })
})
