/* The frozen layouts of penstock/penstock.h's structures: a program that was compiled with an older header passes exactly
 * these bytes. A new field gets a new line after the last one, and another SIZE; no line ever changes otherwise.
 * A new field may not use former padding (older callers leave that undefined): see SIZE before it. */
#include <penstock/penstock.h>
#include <stddef.h>
#include <stdint.h>

#define SIZE(structure, bytes) \
  _Static_assert(sizeof(struct structure) == (bytes), "the size of " #structure)
#define AT(structure, field, offset) \
  _Static_assert(offsetof(struct structure, field) == (offset), "the place of " #structure "." #field)

/* All supported machines have 64 bits. */
#if UINTPTR_MAX == UINT64_MAX

SIZE(penstock_reader_options, 32);
AT(penstock_reader_options, size, 0);
AT(penstock_reader_options, block_bytes, 8);
AT(penstock_reader_options, read_ahead_blocks, 16);
AT(penstock_reader_options, comeback_blocks, 20);
AT(penstock_reader_options, policy, 24);
AT(penstock_reader_options, memory_blocks, 28);

SIZE(penstock_writer_options, 48);
AT(penstock_writer_options, size, 0);
AT(penstock_writer_options, bytes_max, 8);
AT(penstock_writer_options, block_bytes, 16);
AT(penstock_writer_options, write_behind_blocks, 24);
AT(penstock_writer_options, comeback_blocks, 28);
AT(penstock_writer_options, policy, 32);
AT(penstock_writer_options, no_sync, 36);
AT(penstock_writer_options, overwrite_device, 40);

SIZE(penstock_stream_options, 56);
AT(penstock_stream_options, size, 0);
AT(penstock_stream_options, bytes, 8);
AT(penstock_stream_options, block_bytes, 16);
AT(penstock_stream_options, read_ahead_blocks, 24);
AT(penstock_stream_options, producer_comeback_blocks, 28);
AT(penstock_stream_options, consumer_comeback_blocks, 32);
AT(penstock_stream_options, policy, 36);
AT(penstock_stream_options, name, 40);
AT(penstock_stream_options, relaxed, 48);

SIZE(penstock_attach_options, 24);
AT(penstock_attach_options, size, 0);
AT(penstock_attach_options, policy, 8);
AT(penstock_attach_options, strict, 12);
AT(penstock_attach_options, relaxed, 16);

SIZE(penstock_sort_options, 24);
AT(penstock_sort_options, size, 0);
AT(penstock_sort_options, threads, 8);
AT(penstock_sort_options, descending, 12);
AT(penstock_sort_options, stable, 16);

SIZE(penstock_sort_records_options, 48);
AT(penstock_sort_records_options, size, 0);
AT(penstock_sort_records_options, record_bytes, 8);
AT(penstock_sort_records_options, key_offset, 16);
AT(penstock_sort_records_options, key_bytes, 24);
AT(penstock_sort_records_options, threads, 32);
AT(penstock_sort_records_options, descending, 36);
AT(penstock_sort_records_options, stable, 40);

SIZE(penstock_partition_options, 72);
AT(penstock_partition_options, size, 0);
AT(penstock_partition_options, by, 8);
AT(penstock_partition_options, bits, 12);
AT(penstock_partition_options, seed, 16);
AT(penstock_partition_options, first, 24);
AT(penstock_partition_options, last, 32);
AT(penstock_partition_options, buckets, 40);
AT(penstock_partition_options, threads, 44);
AT(penstock_partition_options, stable, 48);
AT(penstock_partition_options, splitters, 56);
AT(penstock_partition_options, splitters_count, 64);

SIZE(penstock_source, 16);
AT(penstock_source, read, 0);
AT(penstock_source, context, 8);

SIZE(penstock_sink, 16);
AT(penstock_sink, write, 0);
AT(penstock_sink, context, 8);

SIZE(penstock_files_options, 272);
AT(penstock_files_options, size, 0);
AT(penstock_files_options, inputs, 8);
AT(penstock_files_options, inputs_count, 16);
AT(penstock_files_options, sources, 24);
AT(penstock_files_options, sources_count, 32);
AT(penstock_files_options, output, 40);
AT(penstock_files_options, sink, 48);
AT(penstock_files_options, format, 56);
AT(penstock_files_options, record_bytes, 64);
AT(penstock_files_options, dtype, 72);
AT(penstock_files_options, keys, 80);
AT(penstock_files_options, keys_count, 88);
AT(penstock_files_options, letters, 96);
AT(penstock_files_options, separator, 104);
AT(penstock_files_options, header_lines, 112);
AT(penstock_files_options, csv, 116);
AT(penstock_files_options, zero_terminated, 120);
AT(penstock_files_options, descending, 124);
AT(penstock_files_options, memory_bytes, 128);
AT(penstock_files_options, temp_directories, 136);
AT(penstock_files_options, temp_directories_count, 144);
AT(penstock_files_options, device, 152);
AT(penstock_files_options, cancel, 160);
AT(penstock_files_options, progress, 168);
AT(penstock_files_options, progress_context, 176);
AT(penstock_files_options, no_sync, 184);
AT(penstock_files_options, overwrite_device, 188);
AT(penstock_files_options, no_decompress, 192);
AT(penstock_files_options, memory_scope, 196);
AT(penstock_files_options, locale, 200);
AT(penstock_files_options, has_random_seed, 208);
AT(penstock_files_options, random_seed, 216);
AT(penstock_files_options, compressed, 224);
AT(penstock_files_options, mechanism, 232);
AT(penstock_files_options, notice, 240);
AT(penstock_files_options, notice_context, 248);
AT(penstock_files_options, settings, 256);
AT(penstock_files_options, settings_count, 264);

SIZE(penstock_sort_files_options, 48);
AT(penstock_sort_files_options, size, 0);
AT(penstock_sort_files_options, threads, 8);
AT(penstock_sort_files_options, stable, 12);
AT(penstock_sort_files_options, unique, 16);
AT(penstock_sort_files_options, merge_only, 20);
AT(penstock_sort_files_options, resume, 24);
AT(penstock_sort_files_options, has_top, 28);
AT(penstock_sort_files_options, top, 32);
AT(penstock_sort_files_options, compression, 40);

SIZE(penstock_check_file_options, 16);
AT(penstock_check_file_options, size, 0);
AT(penstock_check_file_options, threads, 8);

SIZE(penstock_merge_files_options, 16);
AT(penstock_merge_files_options, size, 0);
AT(penstock_merge_files_options, unique, 8);
AT(penstock_merge_files_options, stable, 12);

SIZE(penstock_partition_files_options, 32);
AT(penstock_partition_files_options, size, 0);
AT(penstock_partition_files_options, by, 8);
AT(penstock_partition_files_options, bounds_path, 16);
AT(penstock_partition_files_options, parts, 24);
AT(penstock_partition_files_options, checksums, 28);

SIZE(penstock_group_files_options, 96);
AT(penstock_group_files_options, size, 0);
AT(penstock_group_files_options, count, 8);
AT(penstock_group_files_options, sum, 12);
AT(penstock_group_files_options, min, 16);
AT(penstock_group_files_options, max, 20);
AT(penstock_group_files_options, distinct, 24);
AT(penstock_group_files_options, has_value, 28);
AT(penstock_group_files_options, value_offset, 32);
AT(penstock_group_files_options, value_bytes, 36);
AT(penstock_group_files_options, value_signed, 40);
AT(penstock_group_files_options, value_big_endian, 44);
AT(penstock_group_files_options, sorted, 48);
AT(penstock_group_files_options, has_top, 52);
AT(penstock_group_files_options, top, 56);
AT(penstock_group_files_options, columns, 64);
AT(penstock_group_files_options, columns_count, 72);
AT(penstock_group_files_options, results, 80);
AT(penstock_group_files_options, results_count, 88);

SIZE(penstock_join_files_options, 24);
AT(penstock_join_files_options, size, 0);
AT(penstock_join_files_options, right_key, 8);
AT(penstock_join_files_options, right_record_bytes, 16);

SIZE(penstock_join_lines_options, 80);
AT(penstock_join_lines_options, size, 0);
AT(penstock_join_lines_options, left_keys, 8);
AT(penstock_join_lines_options, left_keys_count, 16);
AT(penstock_join_lines_options, right_keys, 24);
AT(penstock_join_lines_options, right_keys_count, 32);
AT(penstock_join_lines_options, list, 40);
AT(penstock_join_lines_options, empty, 48);
AT(penstock_join_lines_options, ignore_case, 56);
AT(penstock_join_lines_options, no_pairs, 60);
AT(penstock_join_lines_options, left_alone, 64);
AT(penstock_join_lines_options, right_alone, 68);
AT(penstock_join_lines_options, inputs_sorted, 72);
AT(penstock_join_lines_options, first_only, 76);

SIZE(penstock_page_pool_options, 24);
AT(penstock_page_pool_options, size, 0);
AT(penstock_page_pool_options, bytes_max, 8);
AT(penstock_page_pool_options, page_bytes, 16);

SIZE(penstock_vector_options, 16);
AT(penstock_vector_options, size, 0);
AT(penstock_vector_options, bytes_max, 8);

SIZE(penstock_table_options, 24);
AT(penstock_table_options, size, 0);
AT(penstock_table_options, bytes, 8);
AT(penstock_table_options, policy, 16);
AT(penstock_table_options, guarantee_copies, 20);

SIZE(penstock_trace_options, 48);
AT(penstock_trace_options, size, 0);
AT(penstock_trace_options, output, 8);
AT(penstock_trace_options, command, 16);
AT(penstock_trace_options, command_count, 24);
AT(penstock_trace_options, attach, 32);
AT(penstock_trace_options, backend, 36);
AT(penstock_trace_options, cancel, 40);

SIZE(penstock_access, 56);
AT(penstock_access, start_ns, 0);
AT(penstock_access, latency_ns, 8);
AT(penstock_access, offset, 16);
AT(penstock_access, bytes, 24);
AT(penstock_access, file, 32);
AT(penstock_access, process, 36);
AT(penstock_access, thread, 40);
AT(penstock_access, is_write, 44);
AT(penstock_access, is_file_seek, 48);
AT(penstock_access, is_device_seek, 52);

SIZE(penstock_trace_read_options, 32);
AT(penstock_trace_read_options, size, 0);
AT(penstock_trace_read_options, under, 8);
AT(penstock_trace_read_options, accesses, 16);
AT(penstock_trace_read_options, context, 24);

SIZE(penstock_trace_file, 64);
AT(penstock_trace_file, size, 0);
AT(penstock_trace_file, path, 8);
AT(penstock_trace_file, reads, 16);
AT(penstock_trace_file, writes, 24);
AT(penstock_trace_file, read_bytes, 32);
AT(penstock_trace_file, written_bytes, 40);
AT(penstock_trace_file, seeks, 48);
AT(penstock_trace_file, peak_bytes, 56);
#endif
