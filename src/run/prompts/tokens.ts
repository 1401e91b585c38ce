/** The names under which the writer thread keeps prompts, with what goes in and out. */
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import { procedure } from '../../store/store.ts'
import type { PromptRun } from './prompt-record.ts'

/** Durable before the agent is started. */
export const beginPrompt = procedure<{ readonly run: PromptRun }, ReceiptRef>('prompts.begin')

export interface PromptChange {
  readonly id: string
  readonly agentSession?: string
  readonly end?: Pick<PromptRun, 'changed_files'> & {
    readonly status: Exclude<PromptRun['status'], 'running'>
    readonly stop_reason: string
  }
}

export const changePrompt = procedure<PromptChange, PromptRun>('prompts.change')
