package segtable;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat$;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.collection.BitSet;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads named Parquet files by Spark's own reader, without rows marked by their numbers.
 *
 * <p>1. The caller gives path and size of each file, as the log has them: nothing is listed.
 *
 * <p>2. Each file has constant columns, which Spark takes for partition values. A bit set marks rows
 * of all files; one constant is the number of a file's first bit. Spark's reader counts rows if the
 * schema has its column for that. So a row's bit costs an addition and a look at a bit. The set is
 * Spark's own class, so executors have it. As a literal of an array it would be hashed, compared and
 * printed wherever Spark looks at the plan.
 *
 * <p>3. Filter and columns are one plan over the files: Spark analyzes it once.
 *
 * <p>4. Only the driver needs this class: executors see Spark's own scan and expressions.
 */
public class SegtableReader {

  /**
   * Returns the rows of files.
   *
   * @param request JSON: options of the reader, schema and constants as Spark's JSON of types, files as
   *     lists of path, size and values of the constants, first as the name of the constant for marks,
   *     columns to return where rows are left out
   * @param marks words of 64 bits, least first; null if no rows are left out
   */
  public Object read(Object session, String request, byte[] marks) throws IOException {
    JsonNode asked = new ObjectMapper().readTree(request);
    StructType constants = (StructType) DataType.fromJson(asked.get("constants").toString());
    StructType schema = (StructType) DataType.fromJson(asked.get("schema").toString());
    JsonNode given = (JsonNode) asked.get("files");
    boolean marked = constants.length() > 0;
    Files files = marked ? new NumberedFiles(given, constants) : new Files(given, constants);
    HadoopFsRelation relation =
        new HadoopFsRelation(
            files,
            constants,
            schema,
            Option.empty(),
            new ParquetFileFormat(),
            options((JsonNode) asked.get("options")),
            (SparkSession) session);
    LogicalPlan rows = LogicalRelation$.MODULE$.apply(relation, false);
    if (marks != null) {
      Column first = functions.col(((JsonNode) asked.get("first")).asText());
      Column at = first.plus(functions.col(rowNumber())).cast("int");
      rows = new Filter(unmarked(((SparkSession) session).expression(at), marks), rows);
      rows = new Project(columns(rows, (JsonNode) asked.get("columns")), rows);
    }
    return Dataset$.MODULE$.ofRows((SparkSession) session, rows);
  }

  /** Returns the column by which Spark's reader numbers the rows of a file. */
  public String rowNumber() {
    return ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME();
  }

  private static Seq columns(LogicalPlan rows, JsonNode names) {
    Map known = new HashMap();
    for (int i = 0; i < rows.output().size(); i++) {
      Attribute column = (Attribute) rows.output().apply(i);
      known.put(column.name(), column);
    }
    List found = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      found.add(known.get(((JsonNode) names.get(i)).asText()));
    }
    return Files.seq(found);
  }

  private static scala.collection.immutable.Map options(JsonNode given) {
    Map found = new HashMap();
    java.util.Iterator names = given.fieldNames();
    while (names.hasNext()) {
      String name = (String) names.next();
      found.put(name, ((JsonNode) given.get(name)).asText());
    }
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(found));
  }

  /** Returns whether a row is not marked: one call of a class that all executors have. */
  private static Expression unmarked(Expression at, byte[] marks) {
    Object type = new ObjectType(BitSet.class);
    Expression all = new Literal(bits(marks), (DataType) type);
    List number = new ArrayList();
    number.add(at);
    Seq none = Files.seq(new ArrayList());
    Object flag = BooleanType$.MODULE$;
    Expression marked =
        new Invoke(all, "get", (DataType) flag, Files.seq(number), none, true, false, true);
    return new Not(marked);
  }

  private static BitSet bits(byte[] marks) {
    ByteBuffer words = ByteBuffer.wrap(marks).order(ByteOrder.LITTLE_ENDIAN);
    BitSet found = new BitSet(marks.length * 8);
    for (int i = 0; i < marks.length / 8; i++) {
      for (long left = words.getLong(i * 8); left != 0; left &= left - 1) {
        found.set(i * 64 + Long.numberOfTrailingZeros(left));
      }
    }
    return found;
  }

  /** Files of which rows are named by their numbers; Spark's plans show the class. */
  public static class NumberedFiles extends Files {
    NumberedFiles(JsonNode files, StructType constants) {
      super(files, constants);
    }
  }

  /** Files with constant columns, in the order of the request. */
  public static class Files implements FileIndex {
    private final List statuses = new ArrayList();
    private final List values = new ArrayList();
    private final StructType constants;
    private long size = 0;

    Files(JsonNode files, StructType constants) {
      this.constants = constants;
      for (int i = 0; i < files.size(); i++) {
        JsonNode file = (JsonNode) files.get(i);
        long bytes = ((JsonNode) file.get(1)).longValue();
        Path path = new Path(((JsonNode) file.get(0)).asText());
        statuses.add(new FileStatus(bytes, false, 1, 1L << 27, 0, path));
        values.add(row((JsonNode) file.get(2), constants));
        size += bytes;
      }
    }

    private static InternalRow row(JsonNode given, StructType constants) {
      Object[] found = new Object[constants.length()];
      for (int i = 0; i < found.length; i++) {
        JsonNode value = (JsonNode) given.get(i);
        if (value.isTextual()) found[i] = UTF8String.fromString(value.asText());
        else found[i] = Long.valueOf(value.longValue());
      }
      return new GenericInternalRow(found);
    }

    public Seq rootPaths() {
      List paths = new ArrayList();
      for (int i = 0; i < statuses.size(); i++) {
        paths.add(((FileStatus) statuses.get(i)).getPath());
      }
      return seq(paths);
    }

    public Seq listFiles(Seq ofConstants, Seq ofRows) {
      List found = new ArrayList();
      for (int i = 0; i < statuses.size(); i++) {
        FileStatus[] file = new FileStatus[] {(FileStatus) statuses.get(i)};
        found.add(PartitionDirectory$.MODULE$.apply((InternalRow) values.get(i), file));
      }
      return seq(found);
    }

    public String[] inputFiles() {
      String[] names = new String[statuses.size()];
      for (int i = 0; i < names.length; i++) {
        names[i] = ((FileStatus) statuses.get(i)).getPath().toUri().toString();
      }
      return names;
    }

    public void refresh() {}

    public long sizeInBytes() {
      return size;
    }

    public StructType partitionSchema() {
      return constants;
    }

    public boolean equals(Object other) {
      return other instanceof Files
          && statuses.equals(((Files) other).statuses)
          && values.equals(((Files) other).values);
    }

    public int hashCode() {
      return statuses.hashCode();
    }

    private static Seq seq(List list) {
      return CollectionConverters.asScala(list).toSeq();
    }
  }
}
