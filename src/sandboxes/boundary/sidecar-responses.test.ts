import { expect, it } from 'vitest'
import { fileListSchema, jobsSchema, processesSchema } from './sidecar-responses.ts'

const ENTRY = { path: 'a', type: 'file', bytes: 1, mode: 0o644, modifiedAtMs: 1 }

it.each([
  ['jobs', jobsSchema, { jobs: Array(500_000).fill(0) }],
  ['entries', fileListSchema, { path: '.', entries: Array(500_000).fill(0) }],
  ['processes', processesSchema, { processes: Array(500_000).fill(0) }],
  ['processes, few enough', processesSchema, { processes: Array(30_000).fill({}) }],
])('reports one error for a list of invalid %s, not one for each element', (_, schema, answer) => {
  expect(schema.safeParse(answer).error?.issues).toHaveLength(1)
})

it('names the first invalid entry', () => {
  const entries = [ENTRY, { ...ENTRY, bytes: -1 }, { ...ENTRY, mode: -1 }]
  expect(fileListSchema.safeParse({ path: '.', entries }).error?.issues[0]?.path).toEqual([
    'entries',
    1,
    'bytes',
  ])
  expect(fileListSchema.safeParse({ path: '.', entries: [ENTRY] }).data?.entries).toEqual([ENTRY])
})
